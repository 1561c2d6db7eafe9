// Package view keeps the newest routing table of a log within reach of those
// who serve it.
//
// A View follows the log for ever and folds what it reads. Readers are woken,
// not fed: Current gives the newest table and a channel that is closed when
// there is a newer one, so a reader loops over "take the table, serve what
// changed since the one I had (table.Diff), wait". There is no queue for each
// reader. A slow one skips versions, never truth, and one that waits costs
// nothing.
//
// What Current gives is always a whole table, or the empty one while there has
// been none yet (Table.Whole is false: serve nothing from it):
//
//   - A log gives the newest fact of each key, oldest first, so what a key meant
//     can come after the fact that says "complete". A table is shown once it has
//     reached the end that the log had when the following began.
//   - While the log cannot be reached, the last table stays, with a warning.
//     Before the first table the log says so as information, once for each reason.
//   - When the log began again (a new epoch), the table of the old one stays
//     until that of the new one is whole; then one swap. If both say the same,
//     nobody is woken.
//
// Readers are woken when rules change, not for each fact: many facts say again
// what is known. The position of the table moves on without waking.
//
// Who must see all that was recorded before waits for the position (WaitFor).
package view
