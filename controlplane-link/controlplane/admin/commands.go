package admin

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/term"

	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/identity"
	"switchyard.dev/eventbus/callers"
)

// Server is what commands use of the running server.
type Server struct {
	Store *store.Store
	// Adopt takes over the state of a cluster, and returns a text about each object.
	Adopt func(ctx context.Context, org, cluster string, dry bool) (string, error)
}

// question is what a command asks the server, and answer its output or an error.
type (
	question struct {
		Command, Org, Arg string
		Dry               bool
	}
	answer struct{ Out, Error string }
)

// command is a command that the server runs; out is the output of the program.
type command struct {
	context.Context
	Server
	question
	out *bytes.Buffer
}

// commands have an argument, which is in capital letters, or none.
var commands = map[string]func(*command) error{
	adminCreate: func(c *command) error {
		key := rand.Text() + rand.Text()
		fmt.Fprintln(c.out, key)
		return createAdmin(c, c.Store, c.Org, key)
	},
	"organisation create NAME": func(c *command) error {
		if err := identity.Valid("organisation", c.Arg); err != nil {
			return err
		}
		return createOrganisation(c, c.Store, c.Arg)
	},
	"organisation list": func(c *command) error {
		all, err := c.Store.Organisations(c)
		for _, o := range all {
			fmt.Fprintln(c.out, o.Name)
		}
		return err
	},
	"user list": func(c *command) error {
		all, err := c.Store.Users(c, c.Org)
		for _, u := range all {
			fmt.Fprintln(c.out, u.ID, u.Email, u.Role)
		}
		return err
	},
	"user delete ID": func(c *command) error {
		return c.Store.DeleteUser(c, c.Org, c.Arg, event(c.Org, "user.delete", map[string]any{"id": c.Arg}))
	},
	"adopt CLUSTER": func(c *command) error {
		text, err := c.Adopt(c, c.Org, c.Arg, c.Dry)
		fmt.Fprint(c.out, text)
		return err
	},
	"backup PATH": func(c *command) error {
		all, err := c.Store.Organisations(c)
		if err == nil {
			err = c.Store.Backup(c, c.Arg)
		}
		for _, o := range all {
			if err == nil { // it has the state of each
				err = c.Store.Record(c, event(o.Name, "store.backup", map[string]any{"path": c.Arg}))
			}
		}
		return err
	},
	"reseal": func(c *command) error {
		all, err := c.Store.Organisations(c)
		for _, o := range all {
			n, failed := c.Store.Reseal(c, o.Name, event(o.Name, "secret.reseal", nil))
			fmt.Fprintf(c.out, "%s: %d secrets\n", o.Name, n)
			err = errors.Join(err, failed)
		}
		return err
	},
}

// socket is where the server serves commands in its container.
func socket() string {
	return cmp.Or(os.Getenv("CONTROLPLANE_SOCKET"), "/run/controlplane/admin.sock")
}

// Serve serves commands until ctx ends, at a socket to which only the user of the process can connect.
func (s Server) Serve(ctx context.Context, logger *slog.Logger) error {
	_ = os.Remove(socket()) // of a process that was killed
	l, err := net.Listen("unix", socket())
	if err == nil {
		err = os.Chmod(socket(), 0o600)
	}
	if err != nil {
		return fmt.Errorf("serve commands of administrators: %w", err)
	}
	var running sync.WaitGroup
	defer running.Wait()
	callers.Accept(ctx, l, logger, &running, func(conn net.Conn) {
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		defer conn.Close()
		_ = json.NewEncoder(conn).Encode(s.answer(ctx, conn)) // the command has ended
	})
	return nil
}

// answer runs the command that a client asks for.
func (s Server) answer(ctx context.Context, conn net.Conn) answer {
	c := &command{Context: ctx, Server: s, out: &bytes.Buffer{}}
	err := json.NewDecoder(conn).Decode(&c.question)
	if run := commands[c.Command]; err == nil && run == nil {
		err = errors.New("the server has no such command: use the program of its release")
	} else if err == nil {
		err = run(c)
	}
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Out: c.out.String()}
}

// ask returns the output of a command.
func ask(ctx context.Context, q question) (string, error) {
	var a answer
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket())
	if err != nil {
		return "", fmt.Errorf("the server is not reached: run the command in its container (%w)", err)
	}
	defer conn.Close()
	if err := errors.Join(json.NewEncoder(conn).Encode(q), json.NewDecoder(conn).Decode(&a)); err != nil {
		return "", fmt.Errorf("the server has not answered: %w", err)
	}
	if a.Error != "" {
		return "", errors.New(a.Error)
	}
	return a.Out, nil
}

const adminCreate = "admin create"

// Is reports whether the arguments of the program are those of a command: they do not begin with a flag.
func Is(args []string) bool { return len(args) > 0 && !strings.HasPrefix(args[0], "-") }

// Run runs a command: flags are before its argument. A key is written to a terminal or to a new file of its
// owner only, so that it is in no log.
func Run(ctx context.Context, args []string, stdout *os.File) (err error) {
	flags := flag.NewFlagSet("controlplane", flag.ContinueOnError)
	org := flags.String("organisation", "default", "organisation of users and clusters")
	file := flags.String("out", "", "new file for the output, which its owner only can read")
	dry := flags.Bool("dry-run", false, "list the objects that adopt would take, and change nothing")
	usage := slices.Sorted(maps.Keys(commands))
	for _, name := range usage {
		words := strings.Fields(name)
		verbs := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == strings.ToUpper(w) })
		if len(args) < len(verbs) || !slices.Equal(args[:len(verbs)], verbs) {
			continue
		}
		if err := flags.Parse(args[len(verbs):]); err != nil {
			return err
		}
		if flags.NArg() != len(words)-len(verbs) {
			return fmt.Errorf("usage: %s, with flags before the argument", name)
		}
		if *file != "" {
			if stdout, err = os.OpenFile(*file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err != nil {
				return err
			}
			defer func() {
				if err = errors.Join(err, stdout.Close()); err != nil {
					_ = os.Remove(*file) // it is empty
				}
			}()
		} else if name == adminCreate && !term.IsTerminal(int(stdout.Fd())) {
			return errors.New("the output is no terminal, and the key could stay in a log: use a terminal (kubectl exec -it), or --out FILE")
		}
		text, err := ask(ctx, question{name, *org, flags.Arg(0), *dry})
		if err == nil {
			_, err = stdout.WriteString(text)
		}
		return err
	}
	return fmt.Errorf("there is no command %q: use %s", strings.Join(args, " "), strings.Join(usage, ", "))
}
