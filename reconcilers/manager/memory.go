package manager

import "runtime/debug"

// garbage is how much memory may be garbage before it is collected, in percent of
// what is in use. What the manager has in use are its caches, which change little; it
// computes little too, so it rather collects twice as often as Go does by itself than
// be twice as large as its caches.
const garbage = 50

// SpareMemory sets how the whole process collects garbage. A program whose process is
// the manager calls it first.
func SpareMemory() { debug.SetGCPercent(garbage) }
