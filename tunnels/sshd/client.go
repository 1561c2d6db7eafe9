package sshd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/time/rate"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/wake"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/identity"
	"switchyard.dev/tunnels/inbound"
	"switchyard.dev/tunnels/outbound"
	"switchyard.dev/tunnels/relay"
	"switchyard.dev/tunnels/sshd/unread"
)

// client is one connection of SSH.
type client struct {
	server *Server
	conn   *ssh.ServerConn
	bytes  *unread.Conn
	user   identity.User
	// until is the expiry of the certificate.
	until  time.Time
	owner  inbound.Owner
	from   string
	holder *inbound.Holder

	// heard is when the client last answered, in nanoseconds since 1970; channels the number of
	// open ones.
	heard    atomic.Int64
	channels atomic.Int32
	refusals *rate.Limiter

	// changing is held while forwards change, which may take as long as the API server does;
	// mu guards them.
	changing, mu sync.Mutex
	// forwards are the forwards that the client requested, by the address and port in its
	// request.
	forwards map[forward]target
}

// forward is a requested forward, as the client names it.
type forward struct {
	host string
	port uint32
}

// target is the external workload and port of a forward.
type target struct {
	key  inbound.Key
	port int32
}

func newClient(s *Server, conn *ssh.ServerConn, bytes *unread.Conn, who certified, from string) *client {
	user := who.user
	c := &client{server: s, conn: conn, bytes: bytes, user: user, until: who.until, from: from, forwards: map[forward]target{},
		refusals: rate.NewLimiter(rejects, rejectsBurst),
		owner: inbound.Owner{User: user.Name, Session: "ssh-" + rand.Text(), Epoch: 1, Via: "ssh",
			Labels: map[string]string{"client": readable(string(conn.ClientVersion())), "login": readable(conn.User())}}}
	c.heard.Store(time.Now().UnixNano())
	c.holder = s.cfg.Table.Join(c.owner, c)
	return c
}

// readable returns the beginning of a text that the client chose, as valid UTF-8: a label that is
// not could not be sent, nor the message that contains it.
func readable(text string) string {
	const most = 200
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// run serves the connection until it ends, or ctx does.
func (c *client) run(ctx context.Context, channels <-chan ssh.NewChannel, requests <-chan *ssh.Request) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer c.holder.Disconnect()
	stop := context.AfterFunc(ctx, func() { _ = c.conn.Close() })
	defer stop()
	var all sync.WaitGroup
	all.Go(func() { c.answer(ctx, requests) })
	all.Go(func() { c.keep(ctx) })
	all.Go(func() { c.recheck(ctx) })
	all.Go(func() { c.last(ctx) })
	for ch := range channels {
		c.open(ctx, ch)
	}
	cancel()
	all.Wait()
}

// keep pings a client that is silent, and disconnects one that does not answer.
func (c *client) keep(ctx context.Context) {
	for wake.Sleep(ctx, silence) {
		late := time.AfterFunc(dead-silence, func() { _ = c.conn.Close() })
		_, _, err := c.conn.SendRequest("keepalive@openssh.com", true, nil)
		late.Stop()
		if err != nil {
			return
		}
		c.heard.Store(time.Now().UnixNano())
	}
}

// answer answers the requests of the connection. It takes them until there are no more: the
// library does not end a connection while one of its requests waits to be received.
func (c *client) answer(ctx context.Context, requests <-chan *ssh.Request) {
	defer ssh.DiscardRequests(requests)
	for r := range requests {
		var err error
		switch r.Type {
		case "tcpip-forward":
			err = c.forward(ctx, r.Payload)
		case "cancel-tcpip-forward":
			err = c.cancel(r.Payload)
		case "keepalive@openssh.com":
			err = errQuiet
		default:
			err = fmt.Errorf("there is no %.80q here", r.Type)
		}
		if err != nil && !c.refuse(r.Type, err) {
			return
		}
		if r.WantReply {
			if r.Reply(err == nil, nil) != nil {
				return
			}
		}
	}
}

// errQuiet is the answer to requests that clients send only as a ping.
var errQuiet = errors.New("no such thing, as expected")

// refuse records a refusal. It reports whether the connection continues.
func (c *client) refuse(what string, why error) bool {
	if !c.refusals.Allow() {
		c.server.cfg.Logger.Warn("an SSH client sent too many refused requests; its connection is closed", "from", c.from, "user", c.user.Name)
		_ = c.conn.Close()
		return false
	}
	if !errors.Is(why, errQuiet) {
		c.server.cfg.Logger.Info("a request over SSH was refused", "from", c.from, "user", c.user.Name, "what", fmt.Sprintf("%.80q", what), "error", why)
	}
	return true
}

// forward begins to forward a port of an external workload to the client.
func (c *client) forward(ctx context.Context, payload []byte) error {
	var asked struct {
		Host string
		Port uint32
	}
	if err := ssh.Unmarshal(payload, &asked); err != nil {
		return err
	}
	to, err := parseTarget(asked.Host, asked.Port)
	if err == nil {
		err = c.aged()
	}
	if err != nil {
		return err
	}
	c.changing.Lock()
	defer c.changing.Unlock()
	name := forward{asked.Host, asked.Port}
	if err := c.add(name, to); err != nil {
		return err
	}
	if refused := c.hold(ctx, to.key, false); refused != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.forwards, name)
		return errors.New(refused.Message)
	}
	return nil
}

// add records a forward.
func (c *client) add(name forward, to target) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.forwards) >= maxForwards {
		return fmt.Errorf("the connection has %d forwards, the maximum", maxForwards)
	}
	if _, twice := c.forwards[name]; twice {
		return fmt.Errorf("%s:%d is forwarded already", name.host, name.port)
	}
	c.forwards[name] = to
	return nil
}

// wanted returns the forwarded ports of a workload, and the workloads of all forwards.
func (c *client) wanted(key inbound.Key) (ports []int32, keys []inbound.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, to := range c.forwards {
		if to.key == key && !slices.Contains(ports, to.port) {
			ports = append(ports, to.port)
		}
		if !slices.Contains(keys, to.key) {
			keys = append(keys, to.key)
		}
	}
	return ports, keys
}

// hold forwards the connections of a workload to the client, on the ports that it requested. With
// again set the client holds the workload already, unless another client took it in between.
// c.changing is held.
func (c *client) hold(ctx context.Context, key inbound.Key, again bool) *tunnelv1.Refused {
	w, found := c.server.cfg.Cluster.Workload(key.Namespace, key.Name)
	if !found {
		return refusal(tunnelv1.Reason_REASON_NOT_FOUND, "SignadotExternalWorkload %s does not exist: check that its sandbox does.", key)
	}
	if w.Sandbox == "" {
		return refusal(tunnelv1.Reason_REASON_FORBIDDEN, "SignadotExternalWorkload %s belongs to no sandbox, so its requests cannot be sent to a workstation.", key)
	}
	if refused := c.server.cfg.Access.MayUpdate(ctx, c.user, w.Sandbox); refused != nil {
		return refused
	}
	ports, _ := c.wanted(key)
	for _, port := range ports {
		if !slices.ContainsFunc(w.Ports, func(p clusterPort) bool { return p.Baseline == port }) {
			return refusal(tunnelv1.Reason_REASON_NOT_FOUND, "SignadotExternalWorkload %s has no port %d: its ports are %v.", key, port, portsOf(w))
		}
	}
	if again && !c.holder.Holds(key) {
		return nil
	}
	return c.holder.Hold(w, ports)
}

// cancel ends a forward.
func (c *client) cancel(payload []byte) error {
	var asked struct {
		Host string
		Port uint32
	}
	if err := ssh.Unmarshal(payload, &asked); err != nil {
		return err
	}
	c.changing.Lock()
	defer c.changing.Unlock()
	name := forward{asked.Host, asked.Port}
	c.mu.Lock()
	to, is := c.forwards[name]
	delete(c.forwards, name)
	c.mu.Unlock()
	if !is {
		return fmt.Errorf("%.253q:%d is not forwarded", asked.Host, asked.Port)
	}
	// The port of the pod is closed with the last forward of the workload.
	if ports, _ := c.wanted(to.key); len(ports) == 0 {
		c.holder.Release(to.key)
	}
	return nil
}

// recheck releases tunnels that the user may not hold any more, periodically and when an external
// workload changes.
func (c *client) recheck(ctx context.Context) {
	again := time.NewTicker(c.server.cfg.Recheck)
	defer again.Stop()
	for {
		changed, timed := c.server.cfg.Cluster.Changed(), false
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-again.C:
			timed = true
		}
		c.review(ctx)
		if !timed {
			continue
		}
		if why := c.revoked(ctx); why != "" {
			c.end(why)
			return
		}
	}
}

// review checks each tunnel of the client again.
func (c *client) review(ctx context.Context) {
	c.changing.Lock()
	defer c.changing.Unlock()
	_, keys := c.wanted(inbound.Key{})
	for _, key := range keys {
		if !c.holder.Holds(key) {
			continue
		}
		if refused := c.hold(ctx, key, true); refused != nil && refused.Reason != tunnelv1.Reason_REASON_UNAVAILABLE {
			c.server.cfg.Logger.Info("a tunnel over SSH ends", "workload", key.String(), "user", c.user.Name, "message", refused.Message)
			c.forget(key)
		}
	}
}

// forget ends all forwards of a workload.
func (c *client) forget(key inbound.Key) {
	c.holder.Release(key)
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, to := range c.forwards {
		if to.key == key {
			delete(c.forwards, name)
		}
	}
}

// NotifyLost implements inbound.Workstation. SSH has no message for it.
func (c *client) NotifyLost(key inbound.Key, by string) {
	c.server.cfg.Logger.Info("a tunnel over SSH was taken over", "workload", key.String(), "user", c.user.Name, "by", by)
}

// Heard implements inbound.Workstation.
func (c *client) Heard() time.Time { return time.Unix(0, c.heard.Load()) }

// enter reserves a channel of the connection and of its user. left releases it.
func (c *client) enter() (left func(), err error) {
	if err := c.aged(); err != nil {
		return nil, err
	}
	if c.channels.Add(1) > maxChannels {
		c.channels.Add(-1)
		return nil, fmt.Errorf("the connection has %d channels, the maximum: close some, or open another connection", maxChannels)
	}
	leave, err := c.server.channels.Enter(callers.Caller{Kind: callers.Pod, Name: c.user.Name})
	if err != nil {
		c.channels.Add(-1)
		return nil, err
	}
	return sync.OnceFunc(func() {
		c.channels.Add(-1)
		leave()
	}), nil
}

// Connect implements inbound.Workstation.
func (c *client) Connect(ctx context.Context, to *tunnelv1.Inbound) (relay.Stream, error) {
	name, is := c.called(target{inbound.Key{Namespace: to.Namespace, Name: to.Name}, to.BaselinePort})
	if !is {
		return nil, errors.New("the port is not forwarded any more")
	}
	left, err := c.enter()
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(to.From)
	number, _ := strconv.ParseUint(port, 10, 16)
	payload := ssh.Marshal(struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}{name.host, name.port, host, uint32(number)})
	type opened struct {
		ch  ssh.Channel
		err error
	}
	answer, mark, about := make(chan opened, 1), c.bytes.Mark(), fmt.Sprintf("%s to %s/%s:%d", to.From, to.Namespace, to.Name, to.BaselinePort)
	go func() {
		ch, requests, err := c.conn.OpenChannel("forwarded-tcpip", payload)
		if err == nil {
			go ssh.DiscardRequests(requests)
		}
		answer <- opened{ch, err}
	}()
	select {
	case o := <-answer:
		if o.err != nil {
			left()
			return nil, o.err
		}
		return c.bytes.Channel(o.ch, about, mark, left), nil
	case <-ctx.Done():
		go func() { // the channel may still open
			o := <-answer
			if o.err != nil {
				left()
				return
			}
			_ = c.bytes.Channel(o.ch, about, mark, left).Close()
		}()
		return nil, ctx.Err()
	}
}

// called returns the client's name of a port.
func (c *client) called(to target) (forward, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, t := range c.forwards {
		if t == to {
			return name, true
		}
	}
	return forward{}, false
}

// open answers a channel that the client opens.
func (c *client) open(ctx context.Context, ch ssh.NewChannel) {
	reject := func(reason ssh.RejectionReason, why error) {
		if c.refuse("channel "+ch.ChannelType(), why) {
			_ = ch.Reject(reason, why.Error()) // an error means that the client has closed
		}
	}
	if ch.ChannelType() != "direct-tcpip" {
		reject(ssh.Prohibited, fmt.Errorf("a tunnel proxy has no %.80q: connect with ssh -N, and -R, -L or -D", ch.ChannelType()))
		return
	}
	var asked struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}
	if err := ssh.Unmarshal(ch.ExtraData(), &asked); err != nil {
		reject(ssh.ConnectionFailed, errors.New("the request makes no sense"))
		return
	}
	left, err := c.enter()
	if err != nil {
		reject(ssh.ResourceShortage, err)
		return
	}
	go func() {
		if refused := c.direct(ctx, ch, asked.Host, asked.Port, left); refused != nil {
			left()
			reason := ssh.ConnectionFailed
			if r := refused.Reason; r == tunnelv1.Reason_REASON_DESTINATION || r == tunnelv1.Reason_REASON_FORBIDDEN {
				reason = ssh.Prohibited
			}
			reject(reason, errors.New(refused.Message))
		}
	}()
}

// direct forwards a channel into the cluster.
//
// left is called when the channel is closed, unless the channel is refused.
func (c *client) direct(ctx context.Context, ch ssh.NewChannel, host string, port uint32, left func()) *tunnelv1.Refused {
	if refused := c.server.cfg.Access.MayUse(ctx, c.user); refused != nil && !c.holder.Holds(inbound.Key{}) {
		return refused
	}
	out, refused := c.server.cfg.Gate.Open(ctx, outbound.Who{Via: "ssh", User: c.user.Name, Session: c.owner.Session, From: c.from}, host, port)
	if refused != nil {
		return refused
	}
	mark := c.bytes.Mark()
	accepted, requests, err := ch.Accept()
	if err != nil {
		out.Abandon(err)
		left()
		return nil
	}
	go ssh.DiscardRequests(requests)
	out.Join(c.bytes.Channel(accepted, "to "+out.Address().String(), mark, left))
	return nil
}
