// Package child runs each Smart Test in a process of its own: the program starts itself again, gives the process the
// test on its standard input, and reads reports from its standard output. Reports stay when the process ends by a limit.
//
// Starlark has no limit of memory, and single steps can take any amount of it and of time. So the process has RLIMIT_AS, a
// little above the addresses that it has before the script. Go reserves more than a gigabyte of them at its start, which is
// why the limit is relative; then it reserves them in arenas of 64 MiB before it uses them, and ends when it gets no more. The
// parent takes the reason from what Go prints. RLIMIT_DATA is no limit for Go: the kernel does not count pages that replace
// reserved ones. When the container has no more memory, the kernel chooses this process before the parent.
//
// At the end of its time the parent kills it. It cannot write files, has an empty environment, and ends when its parent
// does.
package child
