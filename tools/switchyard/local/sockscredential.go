package local

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tools/switchyard/command"
)

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
