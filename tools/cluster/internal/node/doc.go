// Package node says what a node consists of and keeps it running.
//
// A Part is one program as a value: its arguments and how to ask whether it is
// well. Parts and Files are pure: from the layout they make what is to be
// started and what it reads. Start, Find and Probe act: they start a part on its
// own, detached from this process, find it again in the kernel's list of
// processes, and ask it.
//
// Nothing watches the parts. Who kills one has to say `up` again, which finds
// those that live and starts those that do not.
package node
