package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// token is the cluster token in a file that the kubelet replaces.
type token struct {
	file string
	mu   sync.Mutex
	last string // that was read last for an attempt
}

// load returns the token as the file has it; empty: there is none.
func (t *token) load() (string, error) {
	text, err := os.ReadFile(t.file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the cluster token: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// read is load for an attempt.
func (t *token) read() (string, error) {
	text, err := t.load()
	if err == nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.last = text
	}
	return text, err
}

// checkEvery is how often the file is read.
const checkEvery = 5 * time.Second

// watch calls changed when the file has another token than that of the last attempt, until ctx
// ends.
func (t *token) watch(ctx context.Context, changed func(context.Context)) {
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		now, err := t.load()
		t.mu.Lock()
		other := err == nil && now != t.last
		t.mu.Unlock()
		if other {
			changed(ctx)
		}
	}
}

// uid is the UID of namespace kube-system, once it was read.
type uid struct {
	access *rest.Config
	mu     sync.Mutex
	known  string
}

// read returns the UID.
func (u *uid) read(ctx context.Context) (string, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.known != "" {
		return u.known, nil
	}
	kube, err := kubernetes.NewForConfig(u.access)
	if err != nil {
		return "", fmt.Errorf("reach the cluster: %w", err)
	}
	n, err := kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("read the UID of the cluster: %w", err)
	}
	u.known = string(n.UID)
	return u.known, nil
}
