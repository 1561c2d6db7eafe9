package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A shell in the network of the node shows that, whatever the user's bashrc sets; its user would
// otherwise wonder why the internet does not answer.
func TestTheShellNamesTheNode(t *testing.T) {
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, ".bashrc"), []byte("PS1='mine$ '\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for program, want := range map[string]string{"bash": "(cluster node-2) mine$ ", "sh": "(cluster node-2) "} {
		cmd := exec.Command(program, "-i")
		cmd.Stdin = strings.NewReader("true\nexit\n")
		cmd.Env = append(os.Environ(), "HOME="+home)
		for key, value := range prompt([]string{"/bin/" + program}, "node-2", "true; ") {
			cmd.Env = append(cmd.Env, key+"="+value)
		}
		out, err := cmd.CombinedOutput()
		if err != nil || strings.Count(string(out), want) < 2 || strings.Contains(string(out), want+"(cluster") {
			t.Errorf("%s, which ends with %v, shows %q", program, err, out)
		}
	}
	for _, argv := range [][]string{{"bash", "-c", "true"}, {"kubectl"}} {
		if set := prompt(argv, "node-2", ""); set != nil {
			t.Errorf("%q gets %v", argv, set)
		}
	}
}
