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
)

func sshCert(s *command.Session) *cobra.Command {
	p := &place{s: s, ofCluster: true}
	var identity, known string
	c := &cobra.Command{
		Use: "ssh-cert", Short: "Sign a key for the SSH port of the tunnel proxies", Args: cobra.NoArgs,
		Long: `Sign your public key for the SSH port of the tunnel proxies; the certificate is valid for
minutes. It is written next to the key, where ssh finds it, and the proxies' host key into a
separate known_hosts file. Private keys are neither read nor sent.`,
		Example: "  switchyard tunnel ssh-cert --identity ~/.ssh/id_ed25519",
	}
	p.flags(c.Flags())
	c.Flags().StringVar(&identity, "identity", "", "the private key's `FILE`; FILE.pub is signed, and FILE-cert.pub is written (default: ~/.ssh/id_ed25519)")
	c.Flags().StringVar(&known, "known-hosts", "", "the `file` for the proxies' host key (default: ~/.ssh/known_hosts_switchyard)")
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
		return p.briefly(c.Context(), func(ctx context.Context, api tunnelv1.TunnelAPIClient) error {
			return p.certify(ctx, api, strings.TrimSpace(string(public)), identity, known)
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

func (p *place) certify(ctx context.Context, api tunnelv1.TunnelAPIClient, public, identity, known string) error {
	got, err := api.IssueSSHCertificate(ctx, &tunnelv1.IssueSSHCertificateRequest{PublicKey: public})
	if err != nil {
		return fmt.Errorf("request a signature from tunnel-api: %w", err)
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

func socksCredential(s *command.Session) *cobra.Command {
	p := &place{s: s, ofCluster: true}
	c := &cobra.Command{
		Use: "socks-credential", Short: "Issue a credential for the SOCKS5 port of the tunnel proxies", Args: cobra.NoArgs,
		Long: `Issue a user name and a password for the SOCKS5 port (1080) of the tunnel proxies, valid for
minutes. Clients that connect to that port directly, such as through kubectl port-forward, need
them. The SOCKS5 port that switchyard connect opens on this machine needs no credential.`,
		Example: "  switchyard tunnel socks-credential -o json",
	}
	p.flags(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error {
		return p.briefly(c.Context(), p.issueSOCKS)
	}
	return c
}

// socksIssued is the output of socks-credential.
type socksIssued struct {
	User     string    `json:"user"`
	Password string    `json:"password"`
	Expires  time.Time `json:"expires"`
}

func (p *place) issueSOCKS(ctx context.Context, api tunnelv1.TunnelAPIClient) error {
	got, err := api.IssueSOCKSCredential(ctx, &tunnelv1.IssueSOCKSCredentialRequest{})
	if err != nil {
		return fmt.Errorf("request a credential from tunnel-api: %w", err)
	}
	out := socksIssued{got.GetUser(), got.GetPassword(), got.GetExpires().AsTime()}
	text := fmt.Sprintf("user      %s\npassword  %s\nexpires   %s\n", out.User, out.Password, p.s.Now().Add(time.Until(out.Expires)).Format(time.TimeOnly))
	return p.s.Show.Report(out, text)
}
