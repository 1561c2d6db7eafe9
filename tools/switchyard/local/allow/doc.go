// Package allow keeps which local addresses the user of a workstation agreed to open: from flags,
// from files of sandboxes, and from answers on the terminal, which it remembers in a file. The
// decisions are those of package consent.
package allow
