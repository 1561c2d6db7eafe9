// Command smart-test runs Smart Tests, and prints their results as one JSON document (workflows/smarttest.Result):
//
//	smart-test run [FLAGS] PATH…   run the tests at paths: files, and all *.star files of folders and below
//	smart-test interpret           run one test, as the process that run starts for each
//
// Exit codes: 0, all tests are completed and all checks have passed; 1, a check has failed; 2, the tests cannot be run; 3, a
// test is not completed, and has a reason. A file can begin with "#!/smart-test run".
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // images have no time zones

	_ "golang.org/x/crypto/x509roots/fallback" // and no certificates of public authorities

	"switchyard.dev/workflows/smarttest/child"
	"switchyard.dev/workflows/smarttest/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := run(ctx, append(os.Args, ""))
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string) int {
	err := errors.New("usage: smart-test run [FLAGS] PATH…")
	switch args[1] {
	case "run":
		m := command.Main{Executable: "/proc/self/exe", Getenv: os.Getenv, Stdout: os.Stdout, Stderr: os.Stderr}
		return m.Run(ctx, args[2:len(args)-1])
	case command.Interpret:
		if err = child.Serve(os.Stdin, os.Stdout); err == nil {
			return command.Passed
		}
	}
	fmt.Fprintln(os.Stderr, "smart-test:", err)
	return command.CannotRun
}
