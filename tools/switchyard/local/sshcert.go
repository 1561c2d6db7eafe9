package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tunnels/workstation"
)

func sshCert(s *command.Session) *cobra.Command {
	p := &place{s: s}
	var identity, known string
	c := &cobra.Command{
		Use: "ssh-cert", Short: "Sign a key for the SSH port of the tunnel proxies", Args: cobra.NoArgs,
		Long: `Have a public key of yours signed for the SSH port of the tunnel proxies, for minutes. It
writes the certificate beside the key, where ssh finds it by itself, and the proxies' host
key into a known_hosts file of its own. No private key leaves this machine, nor is one read.`,
		Example: "  switchyard tunnel ssh-cert --identity ~/.ssh/id_ed25519",
	}
	p.flags(c.Flags())
	c.Flags().StringVar(&identity, "identity", "", "the private key's `file`; beside it are FILE.pub, which is signed, and FILE-cert.pub, which is written. ~/.ssh/id_ed25519")
	c.Flags().StringVar(&known, "known-hosts", "", "the `file` for the proxies' host key; ~/.ssh/known_hosts_switchyard")
	c.RunE = func(c *cobra.Command, _ []string) error {
		home, err := os.UserHomeDir()
		if err != nil && (identity == "" || known == "") {
			return err
		}
		identity = cmp.Or(identity, filepath.Join(home, ".ssh", "id_ed25519"))
		known = cmp.Or(known, filepath.Join(home, ".ssh", "known_hosts_switchyard"))
		public, err := os.ReadFile(identity + ".pub")
		if errors.Is(err, os.ErrNotExist) {
			return exit.Usage.Errorf("there is no %s.pub: make a key with ssh-keygen -t ed25519 -f %s, or name another with --identity", identity, identity)
		}
		if err != nil {
			return err
		}
		return p.briefly(c.Context(), func(ctx context.Context, w *workstation.Workstation) error {
			return p.certify(ctx, w, strings.TrimSpace(string(public)), identity, known)
		})
	}
	return c
}

// certificate is the output of ssh-cert.
type certificate struct {
	Certificate string    `json:"certificate"`
	KnownHosts  string    `json:"knownHosts"`
	Expires     time.Time `json:"expires"`
}

func (p *place) certify(ctx context.Context, w *workstation.Workstation, public, identity, known string) error {
	api, conn, err := p.asked(w)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := p.s.Patiently(ctx)
	defer cancel()
	got, err := api.IssueSSHCertificate(ctx, &tunnelv1.IssueSSHCertificateRequest{PublicKey: public})
	if err != nil {
		return fmt.Errorf("have the key signed by tunnel-api: %w", err)
	}
	out := certificate{identity + "-cert.pub", known, got.GetExpires().AsTime()}
	if err := replace(out.Certificate, got.GetCertificate()); err != nil {
		return err
	}
	if err := replace(known, got.GetKnownHosts()); err != nil {
		return err
	}
	text := fmt.Sprintf("%s is written, good until %s. While kubectl -n %s port-forward service/tunnel-proxy 2222 runs:\n"+
		"ssh -N -i %s -o UserKnownHostsFile=%s -p 2222 -R EXTERNALWORKLOAD.NAMESPACE:PORT:localhost:PORT 127.0.0.1\n",
		out.Certificate, p.s.Now().Add(time.Until(out.Expires)).Format(time.TimeOnly), p.s.Cluster.Namespace, identity, known)
	return p.s.Show.Report(out, text)
}

// replace replaces a file as a whole.
func replace(path, text string) error {
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	beside, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(beside.Name())
	_, err = beside.WriteString(text)
	if err := errors.Join(err, beside.Close()); err != nil {
		return err
	}
	return os.Rename(beside.Name(), path)
}
