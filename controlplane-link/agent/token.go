package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// token returns the cluster token as its file has it, which the kubelet replaces; empty: there is none.
func (s Settings) token() (string, error) {
	text, err := os.ReadFile(s.TokenFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the cluster token: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
