// Package check tests the whole program on this machine: a node of its own name,
// with its own state directory, is brought up, hurt, mended and taken down, and
// the machine is compared with what it was before. It can run beside a node that
// is in use. It needs root and, the first time, the minutes that compiling takes.
package check
