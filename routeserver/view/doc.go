// Package view keeps the newest routing table of a log.
//
// A View follows the log and folds its events. Readers are woken, not fed: Current returns the
// newest table and a channel that is closed when there is a newer one, so a reader repeats "take
// the table, serve the difference from the previous one (table.Diff), wait". There is no queue per
// reader. A slow reader skips versions but never misses a change, and a waiting one costs nothing.
//
// Current always returns a whole table, or the empty one before the first whole table (Table.Whole
// is false: serve nothing from it):
//
//   - A log contains the newest fact of each key, oldest first, so facts that belong
//     together can come after the fact that marks completeness. A table is published
//     once it has reached the tip that the log had when following began.
//   - While the log is unreachable, the last table stays, with a warning in the
//     program's log. Before the first table the reason is logged at level info, once
//     for each reason.
//   - When the log begins again (a new epoch), the table of the old one stays
//     until that of the new one is whole; then it is replaced at once. If both have
//     the same content, no reader is woken.
//
// Readers are woken when rules change, not for each fact: many facts repeat known content. The
// position of the table advances without waking them.
//
// A reader that must see everything recorded before a position waits for it (WaitFor).
package view
