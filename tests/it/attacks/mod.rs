//! Every attack of the threat model that these parts meet, each test named after it. Those on the
//! mail's bytes and on the log are in `mail` and `binary`.

mod asking;
mod counting;
mod entering;
