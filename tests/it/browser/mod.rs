//! The ways in, through a real Chromium: what a person does, on one device and on two.

mod screens;
mod ways;
