package admin

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"
)

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
