package door_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/callers/tokens"
	"switchyard.dev/routeserver/door"
)

// checker knows tokens by what they are called, or by their signatures, and what it has
// found out it still knows, unless it is forgetful.
type checker struct {
	asked           int
	away, forgetful bool
	kept            map[string]tokens.Identity
	// blocked has a stranger's question wait.
	blocked chan struct{}
}

func (c *checker) verify(_ context.Context, token string, admit tokens.Admit) (tokens.Identity, error) {
	if who, ok := c.kept[token]; ok && !c.forgetful {
		return who, nil
	}
	leave, err := admit(nil)
	if err != nil {
		return tokens.Identity{}, tokens.ErrUnchecked
	}
	defer leave()
	who, err := c.ask(token[strings.LastIndex(token, ".")+1:])
	if err == nil {
		c.kept = map[string]tokens.Identity{token: who}
	}
	return who, err
}

func (c *checker) ask(token string) (tokens.Identity, error) {
	if token == "slow" {
		<-c.blocked
		return tokens.Identity{}, tokens.ErrUnknown
	}
	c.asked++
	switch {
	case c.away:
		return tokens.Identity{}, tokens.ErrUnchecked
	case token == "manager":
		return tokens.Identity{Namespace: "signadot", ServiceAccount: "manager", PodName: "m-1"}, nil
	case token == "pod":
		return tokens.Identity{Namespace: "shop", ServiceAccount: "default", PodName: "p-1"}, nil
	case token == "account":
		return tokens.Identity{Namespace: "shop", ServiceAccount: "ci"}, nil
	}
	return tokens.Identity{}, tokens.ErrUnknown
}

func TestCallersAreIdentified(t *testing.T) {
	c := &checker{}
	d := door.New(door.Config{Verify: c.verify, Own: []string{"signadot/manager"}})
	stranger := callers.Caller{Name: "10.0.0.1"}
	for shows, want := range map[string]callers.Caller{
		"":               stranger,
		"Bearer manager": {Kind: callers.Ours, Name: "signadot/manager"},
		"bearer pod":     {Kind: callers.Pod, Name: "shop/p-1"},
		"Bearer account": {Kind: callers.Pod, Name: "shop/ci"},
		"Bearer junk":    stranger,
		"Basic manager":  stranger,
	} {
		if got := d.Who(t.Context(), "10.0.0.1:80", shows); got != want {
			t.Errorf("%q: %v, want %v", shows, got, want)
		}
	}
	if got := (*door.Door)(nil).Who(t.Context(), "10.0.0.1:80", "Bearer manager"); got != stranger {
		t.Errorf("without a door: %v", got)
	}
}

func TestOwnAccountsAreKnownWithoutTheAPIServer(t *testing.T) {
	c := &checker{}
	c.forgetful = true
	d := door.New(door.Config{Verify: c.verify, Own: []string{"signadot/manager"}})
	d.Who(t.Context(), "10.0.0.1:80", "Bearer manager")
	d.Who(t.Context(), "10.0.0.2:80", "Bearer pod")
	c.away = true
	if got := d.Who(t.Context(), "10.0.0.1:80", "Bearer manager"); got.Kind != callers.Ours {
		t.Errorf("the manager is %v", got)
	}
	if got := d.Who(t.Context(), "10.0.0.2:80", "Bearer pod"); got.Kind != callers.Stranger {
		t.Errorf("a pod is %v", got)
	}
}

func TestForgedTokensAreCheckedNowAndThen(t *testing.T) {
	c := &checker{}
	d := door.New(door.Config{Verify: c.verify, Own: []string{"signadot/manager"}})
	for i := range 1000 {
		d.Who(t.Context(), "10.0.0.1:80", fmt.Sprintf("Bearer forged-%d", i))
	}
	if c.asked > 40 {
		t.Errorf("the tokens of one stranger were checked %d times", c.asked)
	}
	if got := d.Who(t.Context(), "10.0.0.2:80", "Bearer manager"); got.Kind != callers.Ours {
		t.Errorf("the manager is %v", got)
	}
}

func TestAKnownCallerStaysKnown(t *testing.T) {
	c := &checker{}
	d := door.New(door.Config{Verify: c.verify})
	for range 1000 {
		if got := d.Who(t.Context(), "10.0.0.1:80", "Bearer pod"); got.Kind != callers.Pod {
			t.Fatalf("a pod is %v", got)
		}
	}
}

// What the API server is asked about forged tokens lasts; the manager has a new token.
func TestForgedTokensDoNotMakeTheManagerAnonymous(t *testing.T) {
	c := &checker{blocked: make(chan struct{})}
	d := door.New(door.Config{Verify: c.verify, Own: []string{"signadot/manager"}})
	var all sync.WaitGroup
	defer all.Wait()
	defer close(c.blocked)
	refused := make(chan struct{}, 8)
	for n := range 8 {
		all.Go(func() {
			d.Who(t.Context(), fmt.Sprintf("10.0.1.%d:80", n), "Bearer slow")
			refused <- struct{}{}
		})
	}
	for range 4 {
		select {
		case <-refused:
		case <-time.After(time.Minute):
			t.Fatal("more than four tokens of strangers are being checked")
		}
	}
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"system:serviceaccount:signadot:manager"}`))
	if got := d.Who(t.Context(), "10.0.0.1:80", "Bearer x."+claims+".manager"); got.Kind != callers.Ours {
		t.Errorf("the manager is %v", got)
	}
}

type noted []string

func (n *noted) Identify(remote string) { *n = append(*n, remote) }

func (n *noted) Hang(string) bool { return false }

func TestAConnectionIsNotedWhenItsCallerIsKnown(t *testing.T) {
	var listener noted
	e := door.Entrance{Door: door.New(door.Config{Verify: (&checker{}).verify}), At: func() door.Listener { return &listener }}
	var who callers.Caller
	h := e.HTTP(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { who = callers.From(r.Context()) }))
	for token, want := range map[string]callers.Kind{"": callers.Stranger, "Bearer junk": callers.Stranger, "Bearer pod": callers.Pod} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", token)
		if h.ServeHTTP(httptest.NewRecorder(), r); who.Kind != want {
			t.Errorf("%q: %v", token, who)
		}
	}
	if len(listener) != 1 {
		t.Errorf("known are %q", listener)
	}
}

func TestATokenIsReadWhenItIsShown(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	shown := make(chan []string, 1)
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		shown <- metadata.ValueFromIncomingContext(s.Context(), "authorization")
		return s.SendMsg(&emptypb.Empty{})
	}))
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	dial := func(file string) *grpc.ClientConn {
		conn, err := grpc.NewClient("passthrough:"+l.Addr().String(), door.Show(file), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	shows := func(conn *grpc.ClientConn, want ...string) {
		t.Helper()
		if err := conn.Invoke(t.Context(), "/any/Call", &emptypb.Empty{}, &emptypb.Empty{}); err != nil {
			t.Fatal(err)
		}
		if got := <-shown; !slices.Equal(got, want) {
			t.Errorf("%q is shown, want %q", got, want)
		}
	}
	file := filepath.Join(t.TempDir(), "token")
	conn := dial(file)
	shows(conn)
	for _, token := range []string{"one", "two"} {
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		shows(conn, "Bearer "+token)
	}
	shows(dial(""))
}
