package traffic

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/demo/local"
	"switchyard.dev/tools/wait"
)

// answered is the file that the process of the workstation serves: an answer of customer.
const answered = `{"ID":"900","Name":"An_answer_of_the_laptop","Location":"1,1"}`

// override answers requests to the fork of customer by a process of the workstation, while that is up.
func (s *story) override(ctx context.Context) (err error) {
	s.step("an override: a process of the workstation answers requests to the fork of customer, unless it answers 404")
	customer, err := demo.ServiceURL(ctx, "hotrod", "customer", 8081)
	if err != nil {
		return err
	}
	folder := s.at.File("answers")
	if err := errors.Join(os.MkdirAll(folder, 0o700), s.at.Put("answers/customer", []byte(answered))); err != nil {
		return err
	}
	server := []string{"python3", "-m", "http.server", "9999", "--bind", "127.0.0.1", "--directory", folder}
	process, err := s.starts(ctx, "server", server...)
	if err != nil {
		return err
	}
	defer func() { _, stopped := process.Stop(); err = errors.Join(err, stopped) }()
	command, err := s.starts(ctx, "override", local.Program("switchyard"), "override", "--sandbox", sandbox, "--workload", "customer", "--port", "8081", "--with", "localhost:9999", "--except-status", "404")
	if err != nil {
		return err
	}
	defer func() { said, stopped := command.Stop(); fmt.Print(said); err = errors.Join(err, stopped) }()
	laptop := func(a local.Answer) bool { return a.Text == answered }
	if err := s.until(ctx, customer, s.key, "the process of the workstation answers", laptop); err != nil {
		return err
	}
	if err := s.until(ctx, customer, "", "without the key the baseline answers", local.Answer.Baseline); err != nil {
		return err
	}
	if _, err := process.Stop(); err != nil {
		return err
	}
	if err := s.until(ctx, customer, s.key, "the process is stopped: the fork answers", local.Answer.Local); err != nil {
		return err
	}
	if process, err = s.starts(ctx, "server", server...); err != nil {
		return err
	}
	if err := s.until(ctx, customer, s.key, "the process is started again: it answers", laptop); err != nil {
		return err
	}
	if _, err := command.Stop(); err != nil {
		return err
	}
	return s.until(ctx, customer, s.key, "the override is removed: the fork answers", local.Answer.Local)
}

// starts starts a program on the workstation and prints its command line.
func (s *story) starts(ctx context.Context, log string, argv ...string) (*local.Process, error) {
	fmt.Printf("   dora@workstation$ %s\n", strings.Join(append([]string{filepath.Base(argv[0])}, argv[1:]...), " "))
	return s.at.Start(ctx, log, argv...)
}

// until waits until requests for customer 900 are answered as they should be, and prints the answer.
func (s *story) until(ctx context.Context, customer, key, what string, right func(local.Answer) bool) error {
	return wait.Until(ctx, patience, what, func() error {
		a, err := local.Ask(ctx, s.client, customer, key)
		if err == nil && !right(a) {
			err = fmt.Errorf("the answer is %s", a)
		}
		if err == nil {
			fmt.Printf("   %s: %s\n", what, a)
		}
		return err
	})
}
