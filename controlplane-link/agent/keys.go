package agent

import (
	"context"
	"time"

	linkv1 "switchyard.dev/protos/gen/link/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/controlkeys"
	"switchyard.dev/tunnels/credential/signed"
)

// keysWithin bounds the requests that store keys.
const keysWithin = 8 * time.Second

// setKeys stores the public keys of the control plane, for tunnel proxies and tunnel-api, and answers
// once they are stored.
func (m *Main) setKeys(ctx context.Context, in *carrier.Incoming, keys *linkv1.Keys, welcome *linkv1.Welcome) {
	set, err := signed.ParseKeys([]byte(keys.GetKeySet()))
	if err != nil {
		in.Refuse(&tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_INVALID, Message: "The agent does not store the keys: " + err.Error() + "."})
		return
	}
	ctx, cancel := context.WithTimeout(ctx, keysWithin)
	defer cancel()
	if err := controlkeys.Store(ctx, m.core.ConfigMaps(m.settings.Namespace), signed.Cluster{Organisation: welcome.GetOrganisation(), Name: welcome.GetCluster()}, set); err != nil {
		m.logger.Warn("the keys of the control plane are not stored, so tunnel proxies may refuse credentials of its users, or accept those of a removed key", "error", err)
		in.Refuse(&tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_UNAVAILABLE, Message: "The agent cannot store the keys: " + err.Error() + "."})
		return
	}
	if c, err := in.Accept(); err == nil {
		_ = c.Close()
	}
}
