// Package executor runs the scripts of jobs in the main container of a runner's pod, for the container
// job-executor-proxy (workflows/jobexec/socket). It has no token, no key and no stored output.
//
//   - Install (the init container) copies the program into the volume that the containers share.
//   - Serve is the process of the main container: it begins executions at most once, keeps the output until it is
//     acknowledged, ends scripts and all their processes, and reads files.
//
// It works in any image, with any user. It is process 1 of the container, or adopts the orphans below it: so every process of a script
// is a descendant of it, also one that has left its session or process group. It signals no other process.
//
// The end of a script. After Stop, the timeout or SIGTERM to the executor: SIGTERM to the process group of the
// script; SIGKILL to all descendants when the group has ended or the grace period is over. When the script ends by
// itself: SIGKILL to its remaining processes. An execution is Terminated when no descendant is left, or after killLimit with Ending.Leftover.
// Then the executor begins no other execution.
package executor
