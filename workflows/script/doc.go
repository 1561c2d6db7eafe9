// Package script starts scripts of users in any image, and explains how they end. It is used by the wrapper of a
// unit's script (workflows/iocontext/unit) and by the executor of jobs (workflows/jobexec/executor):
//
//   - Script and Program find the program to run, or the file that the image lacks.
//   - Start starts it as a process group, with pipes for its output; Unstartable explains the kernel's refusal.
//   - Exited explains its exit status.
//   - Begin and Locked record in a shared volume that it has begun, and whether its starter still runs.
//
// It uses only the standard library and the kernel.
package script
