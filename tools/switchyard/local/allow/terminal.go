package allow

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/term"
)

// Console is where questions are asked and answered.
type Console interface {
	// Here reports whether a question can be asked now: the program runs in the foreground.
	Here() bool
	// Ask writes a question and returns the line that is typed after it. The error is errAway if
	// the program is no longer in the foreground; any other is final.
	Ask(ctx context.Context, question string) (string, error)
}

// errAway: the program went to the background while a question waited for its answer.
var errAway = errors.New("the program is in the background")

// Terminal returns the terminal that both in and err are; nil: at least one of them is none.
func Terminal(in io.Reader, err io.Writer) Console {
	from, ok := in.(*os.File)
	to, also := err.(*os.File)
	if !ok || !also || !term.IsTerminal(int(from.Fd())) || !term.IsTerminal(int(to.Fd())) {
		return nil
	}
	return terminal{from, to}
}

// terminal is a Console. It reads only in the foreground process group and while a question waits for
// its answer: the kernel stops a program that reads in the background (SIGTTIN).
type terminal struct{ in, out *os.File }

// maxLine bounds an answer.
const maxLine = 4096

// Ask implements Console. Lines typed before the question do not answer it.
func (t terminal) Ask(ctx context.Context, question string) (string, error) {
	if !t.Here() {
		return "", errAway
	}
	if err := flush(int(t.in.Fd())); err != nil {
		return "", err
	}
	if _, err := io.WriteString(t.out, question); err != nil {
		return "", err
	}
	for line, b := []byte(nil), make([]byte, 1); ; {
		ready, err := readable(int(t.in.Fd()))
		switch {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case err != nil:
			return "", err
		case !t.Here():
			return "", errAway
		case !ready:
			continue
		}
		if _, err := t.in.Read(b); err != nil {
			return "", err
		}
		if b[0] == '\n' {
			return string(line), nil
		}
		if line = append(line, b[0]); len(line) > maxLine {
			return "", errors.New("the answer is too long")
		}
	}
}
