package door_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/callers/tokens"
	"switchyard.dev/routeserver/door"
)

// demanding is a door that lets in whose token is "good".
func demanding(demand bool) *door.Door {
	anonymous := door.Cluster
	if demand {
		anonymous = door.Nothing
	}
	return door.New(door.Config{Anonymous: anonymous, Verify: func(_ context.Context, token string, _ tokens.Admit) (tokens.Identity, error) {
		if token == "unchecked" {
			return tokens.Identity{}, tokens.ErrUnchecked
		}
		if token != "good" {
			return tokens.Identity{}, tokens.ErrUnknown
		}
		return tokens.Identity{Namespace: "shop", ServiceAccount: "default", PodName: "cart"}, nil
	}})
}

func TestRequiredTokensRejectAnonymousCallers(t *testing.T) {
	for _, tt := range []struct {
		demand     bool
		path, show string
		code       int
		caller     callers.Kind
	}{
		{false, "/api/v1/rules", "", http.StatusOK, callers.Stranger},
		{true, "/api/v1/rules", "", http.StatusUnauthorized, 0},
		{true, "/api/v1/rules", "Bearer junk", http.StatusUnauthorized, 0},
		{true, "/api/v1/rules", "Bearer unchecked", http.StatusServiceUnavailable, 0},
		{false, "/api/v1/rules", "Bearer unchecked", http.StatusOK, callers.Stranger},
		{true, "/api/v1/rules", "Bearer good", http.StatusOK, callers.Pod},
		{true, "/healthz", "", http.StatusOK, callers.Stranger},
		{true, "/readyz", "", http.StatusOK, callers.Stranger},
		{true, "/healthz/../api/v1/rules", "", http.StatusUnauthorized, 0},
	} {
		served := errors.New("nobody")
		handler := door.Entrance{Door: demanding(tt.demand)}.HTTP(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if served = nil; callers.From(r.Context()).Kind != tt.caller {
				t.Errorf("%s is asked by %v", tt.path, callers.From(r.Context()))
			}
		}))
		r := httptest.NewRequest(http.MethodGet, "http://here"+tt.path, nil)
		r.Header.Set("Authorization", tt.show)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != tt.code || (served == nil) != (tt.code == http.StatusOK) {
			t.Errorf("demand %t, %s, %q: %d, served %t", tt.demand, tt.path, tt.show, w.Code, served == nil)
		}
		if tt.code == http.StatusUnauthorized && !strings.Contains(w.Body.String(), door.Audience) {
			t.Errorf("it is not said what to show: %s", w.Body)
		}
	}
}

func TestProbesNeedNoToken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	options := append(door.Entrance{Door: demanding(true)}.Options(),
		grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error { return s.SendMsg(&emptypb.Empty{}) }))
	server := grpc.NewServer(options...)
	healthv1.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	file := filepath.Join(t.TempDir(), "token")
	unchecked := filepath.Join(t.TempDir(), "unchecked")
	for name, token := range map[string]string{file: "good", unchecked: "unchecked"} {
		if err := os.WriteFile(name, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for shows, want := range map[string]codes.Code{"": codes.Unauthenticated, unchecked: codes.Unavailable, file: codes.OK} {
		conn, err := grpc.NewClient("passthrough:"+l.Addr().String(), door.Show(shows), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		err = conn.Invoke(t.Context(), "/routes.Routes/GetWorkloadRoutes", &emptypb.Empty{}, &emptypb.Empty{})
		if status.Code(err) != want {
			t.Errorf("with token file %q: %v", shows, err)
		}
		if want == codes.Unauthenticated && !strings.Contains(err.Error(), door.Audience) {
			t.Errorf("it is not said what to show: %v", err)
		}
		if _, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
			t.Errorf("a probe with token file %q: %v", shows, err)
		}
	}
}
