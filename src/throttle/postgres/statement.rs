//! What is said to PostgreSQL. The instants are those of its own clock, whatever the replicas' clocks say.

/// One statement that settles hits in order, each only if the one before was allowed: one round trip, and a
/// refusal touches nothing behind it. A row is named by its key and holds one log or two (`logs` says how many
/// of each); its lock is held when the clock is read, so that of any number of replicas each decides by what the
/// one before has written. Locks are taken in the order of the counters.
///
/// Parameters: for each row its key, and for each of its logs a window and a limit. Result: for each log
/// whether the hit was allowed, how many count now, and how long until one would be allowed.
pub fn settling(logs: impl Iterator<Item = usize>) -> String {
    let (mut rows, mut verdicts, mut from, mut parameter) = (Vec::new(), Vec::new(), String::new(), 0);
    for (at, logs) in logs.enumerate() {
        let row = Row { at, logs: &["first", "second"][..logs], parameter };
        rows.push(row.settle());
        verdicts.extend(row.verdicts());
        from += &if at == 0 { "row_0".to_owned() } else { format!(" LEFT JOIN row_{at} ON true") };
        parameter += 1 + 2 * logs;
    }
    format!("WITH {} SELECT {} FROM {from}", rows.join(", "), verdicts.join(", "))
}

struct Row<'a> {
    /// The how-manieth.
    at: usize,
    logs: &'a [&'static str],
    /// Parameters before its own.
    parameter: usize,
}

impl Row<'_> {
    fn settle(&self) -> String {
        let (at, key, columns) = (self.at, self.parameter + 1, self.logs.join(", "));
        let fresh = vec!["ARRAY[now]"; self.logs.len()].join(", ");
        // Read behind the verdict before, and not earlier: that one may have waited.
        let only_if = match at.checked_sub(1) {
            None => String::new(),
            Some(before) => format!("FROM row_{before} WHERE row_{before}.allowed"),
        };
        let hits: Vec<_> = (0..self.logs.len()).map(|log| self.hit(log)).collect();
        format!(
            "row_{at} AS (
                 INSERT INTO throttle_hits AS was (key, at, {columns})
                 SELECT ${key}, now, {fresh} FROM (SELECT clock_timestamp() AS now {only_if} OFFSET 0) AS clock
                 ON CONFLICT (key) DO UPDATE SET (at, {columns}) = (
                     SELECT now, {} FROM (
                         SELECT greatest(clock_timestamp(), was.at + '1 microsecond') AS now OFFSET 0) AS clock)
                 RETURNING at, {columns}, {} AS allowed)",
            hits.join(", "),
            allowed(self.logs[self.logs.len() - 1])
        )
    }

    /// A log with this hit in it, or as it was where one is full: this one, or one before it.
    fn hit(&self, log: usize) -> String {
        let full: Vec<_> = (0..=log).map(|before| self.is_full(before)).collect();
        let (name, limit) = (self.logs[log], self.limit(log));
        format!(
            "CASE WHEN {} THEN was.{name} ELSE (was.{name} || now)[cardinality(was.{name}) + 2 - {limit}:] END",
            full.join(" OR ")
        )
    }

    /// Whether the last hit that the limit allows is still within the window. Unknown, and so not, while there
    /// were fewer.
    fn is_full(&self, log: usize) -> String {
        let (name, window, limit) = (self.logs[log], self.window(log), self.limit(log));
        format!("coalesce(was.{name}[cardinality(was.{name}) - {limit} + 1] > now - {window}, false)")
    }

    fn verdicts(&self) -> impl Iterator<Item = String> {
        let row = format!("row_{}", self.at);
        (0..self.logs.len()).map(move |log| {
            let (name, window, limit) = (format!("{row}.{}", self.logs[log]), self.window(log), self.limit(log));
            let allowed = format!("{name}[cardinality({name})] = {row}.at");
            format!("{allowed}, cardinality({name}), {name}[cardinality({name}) - {limit} + 1] + {window} - {row}.at")
        })
    }

    fn window(&self, log: usize) -> String {
        format!("${}::interval", self.parameter + 2 + 2 * log)
    }

    fn limit(&self, log: usize) -> String {
        format!("${}::int", self.parameter + 3 + 2 * log)
    }
}

/// An allowed hit is the newest of its log.
fn allowed(log: &str) -> String {
    format!("{log}[cardinality({log})] = at")
}

/// A page of rows from a key on: which are over, and which are ahead of the clock, since it was set back.
pub const SEEN: &str = "
    SELECT key, at < clock_timestamp() - $3, at > clock_timestamp() + '1 second'
    FROM throttle_hits WHERE key > $1 ORDER BY key LIMIT $2";

/// Looked at again under its lock: somebody may have come meanwhile.
pub const REMOVE: &str = "DELETE FROM throttle_hits WHERE key = ANY($1) AND at < clock_timestamp() - $2";

/// What happened is past, whatever the clock said then: nobody is locked out for longer than a window.
pub const SET_BACK: &str = "
    UPDATE throttle_hits SET at = clock_timestamp(),
        first = ARRAY(SELECT least(hit, clock_timestamp()) FROM unnest(first) AS hit),
        second = ARRAY(SELECT least(hit, clock_timestamp()) FROM unnest(second) AS hit)
    WHERE key = ANY($1) AND at > clock_timestamp() + '1 second'";
