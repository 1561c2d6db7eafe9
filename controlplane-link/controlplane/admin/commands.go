package admin

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
	"switchyard.dev/controlplane-link/identity"
)

// Adopt takes over the state of a cluster.
type Adopt func(ctx context.Context, s *store.Store, org, cluster string) error

// invocation is a command with its flags and its store.
type invocation struct {
	context.Context
	*store.Store
	stdout         *os.File
	org, file, arg string
	adopt          Adopt
}

// commands have an argument, which is in capital letters, or none.
var commands = map[string]func(*invocation) error{
	"admin create":             adminCreate,
	"organisation create NAME": organisationCreate,
	"organisation list":        organisationList,
	"user list":                userList,
	"user delete ID": func(in *invocation) error {
		return in.DeleteUser(in, in.org, in.arg, event(in.org, "user.delete", map[string]any{"id": in.arg}))
	},
	"adopt CLUSTER": func(in *invocation) error { return in.adopt(in, in.Store, in.org, in.arg) },
	"backup PATH":   func(in *invocation) error { return in.Backup(in, in.arg) },
	"reseal":        reseal,
}

// Is reports whether the arguments of the program are those of a command: they do not begin with a flag.
func Is(args []string) bool { return len(args) > 0 && !strings.HasPrefix(args[0], "-") }

// StoreConfig returns the configuration of the store, for the server and for commands, from the environment:
// SWITCHYARD_STORE is the file of SQLite, or SWITCHYARD_POSTGRESQL_FILE a file with the URL of a PostgreSQL
// database, and SWITCHYARD_KEYS the file with the keys of secrets.
func StoreConfig(getenv func(string) string) (c store.Config, err error) {
	if c.Keys, err = seal.Read(getenv("SWITCHYARD_KEYS")); err != nil {
		return c, fmt.Errorf("SWITCHYARD_KEYS: %w", err)
	}
	c.Path = getenv("SWITCHYARD_STORE")
	if file := getenv("SWITCHYARD_POSTGRESQL_FILE"); file != "" {
		url, err := os.ReadFile(file)
		c.PostgreSQL = strings.TrimSpace(string(url))
		return c, err
	}
	return c, nil
}

// Run runs a command. Its flags are before its argument.
func Run(ctx context.Context, args []string, stdout *os.File, adopt Adopt) error {
	in := &invocation{Context: ctx, stdout: stdout, adopt: adopt}
	flags := flag.NewFlagSet("controlplane", flag.ContinueOnError)
	flags.StringVar(&in.org, "organisation", "default", "organisation of users and clusters")
	flags.StringVar(&in.file, "out", "", "new file for the key of admin create, which its owner only can read")
	for usage, run := range commands {
		words := strings.Fields(usage)
		verbs := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == strings.ToUpper(w) })
		if len(args) < len(verbs) || !slices.Equal(args[:len(verbs)], verbs) {
			continue
		}
		if err := flags.Parse(args[len(verbs):]); err != nil {
			return err
		}
		if in.arg = flags.Arg(0); flags.NArg() != len(words)-len(verbs) {
			return fmt.Errorf("usage: %s, with flags before the argument", usage)
		}
		config, err := StoreConfig(os.Getenv)
		if err != nil {
			return err
		}
		config.Command = true
		if in.Store, err = store.Open(ctx, config); err != nil {
			return err
		}
		return errors.Join(run(in), in.Close())
	}
	return fmt.Errorf("there is no command %q: use %s", strings.Join(args, " "), strings.Join(slices.Sorted(maps.Keys(commands)), ", "))
}

// adminCreate writes the key to a terminal or to a file of its owner, so that it is in no log.
func adminCreate(in *invocation) (err error) {
	to := in.stdout
	if in.file != "" {
		if to, err = os.OpenFile(in.file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, to.Close()) }()
	} else if !term.IsTerminal(int(to.Fd())) {
		return errors.New("the output is no terminal, and the key could stay in a log: use a terminal (kubectl exec -it), or --out FILE")
	}
	key := rand.Text() + rand.Text()
	if err := createAdmin(in, in.Store, in.org, key); err != nil {
		return err
	}
	_, err = fmt.Fprintln(to, key)
	return err
}

func organisationCreate(in *invocation) error {
	if err := identity.Valid("organisation", in.arg); err != nil {
		return err
	}
	return createOrganisation(in, in.Store, in.arg)
}

func organisationList(in *invocation) error {
	all, err := in.Organisations(in)
	for _, o := range all {
		fmt.Fprintln(in.stdout, o.Name)
	}
	return err
}

func userList(in *invocation) error {
	all, err := in.Users(in, in.org)
	for _, u := range all {
		fmt.Fprintf(in.stdout, "%s %s %s\n", u.ID, u.Email, u.Role)
	}
	return err
}

// reseal encrypts the secrets of all organisations again.
func reseal(in *invocation) error {
	all, err := in.Organisations(in)
	for _, o := range all {
		n, failed := in.Reseal(in, o.Name, event(o.Name, "secret.reseal", nil))
		fmt.Fprintf(in.stdout, "%s: %d secrets\n", o.Name, n)
		err = errors.Join(err, failed)
	}
	return err
}
