// Command pause holds the namespaces of a pod open and does nothing else.
//
// It is the first process of a pod sandbox. With a shared process namespace it
// is process 1 for every container of the pod, so it must also collect the
// exit status of orphans, or they stay as zombies until the pod ends.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for s := range signals {
		if s != syscall.SIGCHLD {
			return
		}
		reap()
	}
}

// reap collects every terminated child. One SIGCHLD can represent several.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err != nil || pid <= 0 {
			return
		}
	}
}
