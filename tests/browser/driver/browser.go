package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// patience is how long an action may take on a busy machine.
const patience = 2 * time.Minute

// Browser answers the calls of a test. Its types are those of package browser.
type Browser struct {
	ctx     context.Context
	cancels []context.CancelFunc

	mu        sync.Mutex
	intercept Intercept
	traffic   Traffic
	open      map[network.RequestID]int // indexes of traffic.Requests
}

// Start is a browser that begins: its program, and flags without dashes with their values; "" is a flag without one.
type Start struct {
	Program string
	Flags   map[string]string
}

// View is what a page is shown on.
type View struct {
	Width, Height int64
	Dark          bool
	// NoScript disables scripts.
	NoScript bool
}

// Request is a request of the browser. Document is the URL of the page that sent it, and Bytes the size of the answer.
type Request struct {
	URL, Document, Kind string
	Bytes               float64
}

// Traffic is what the browser has sent, and the errors and warnings of its console.
type Traffic struct {
	Requests []Request
	Console  []string
}

// None is the argument or the answer of calls without one.
type None struct{ Nothing bool }

// Start starts the browser with an empty profile.
func (b *Browser) Start(s Start, _ *None) error {
	options := append([]chromedp.ExecAllocatorOption{}, chromedp.DefaultExecAllocatorOptions[:]...)
	options = append(options, chromedp.ExecPath(s.Program), chromedp.WSURLReadTimeout(patience))
	for name, value := range s.Flags {
		if value == "" {
			options = append(options, chromedp.Flag(name, true))
		} else {
			options = append(options, chromedp.Flag(name, value))
		}
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	b.cancels = append(b.cancels, cancel)
	b.ctx, cancel = chromedp.NewContext(ctx)
	b.cancels = append(b.cancels, cancel)
	b.open = map[network.RequestID]int{}
	return chromedp.Do(b.ctx, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		if err := chromedp.Listen(ctx, b.record); err != nil {
			return err
		}
		_, err := cdp.Call(ctx, t, network.Enable, network.EnableParams{})
		return err
	}))
}

// close ends the browser.
func (b *Browser) close() {
	for i := len(b.cancels) - 1; i >= 0; i-- {
		b.cancels[i]()
	}
}

// run runs an action.
func run[T any](b *Browser, action chromedp.Action[T]) (out T, err error) {
	if b.ctx == nil {
		return out, errors.New("the browser was not started")
	}
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, action)
}

// call sends a command.
func call[P, R any](b *Browser, command cdp.Command[P, R], params P) error {
	_, err := run(b, func(ctx context.Context, t *chromedp.Target) (R, error) { return cdp.Call(ctx, t, command, params) })
	return err
}

// Open opens a URL, and waits until the page is loaded.
func (b *Browser) Open(url string, _ *None) error {
	if _, err := run(b, chromedp.Navigate(url)); err != nil {
		return fmt.Errorf("open %s: %w", url, err)
	}
	return nil
}

// Evaluate evaluates an expression in the page, waits for it if it is a promise, and returns its value as JSON.
func (b *Browser) Evaluate(expression string, value *string) error {
	raw, err := run(b, chromedp.Evaluate[[]byte](expression, chromedp.EvalAsValue, chromedp.EvalAwaitPromise))
	if err != nil {
		return fmt.Errorf("evaluate %.200s: %w", expression, err)
	}
	*value = string(raw)
	return nil
}

// Click clicks the first element with a selector, once it is visible.
func (b *Browser) Click(selector string, _ *None) error {
	if _, err := run(b, chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible)); err != nil {
		return fmt.Errorf("click %s: %w", selector, err)
	}
	return nil
}

// Text is a text for an element.
type Text struct{ Selector, Text string }

// Type types a text; keys such as Tab are those of chromedp/kb.
func (b *Browser) Type(t Text, _ *None) error {
	action := chromedp.KeyEvent(t.Text)
	if t.Selector != "" {
		action = chromedp.SendKeys(chromedp.CSS(t.Selector), t.Text, chromedp.NodeVisible)
	}
	if _, err := run(b, action); err != nil {
		return fmt.Errorf("type into %q: %w", t.Selector, err)
	}
	return nil
}

// Look shows pages so from now on.
func (b *Browser) Look(v View, _ *None) error {
	theme := "light"
	if v.Dark {
		theme = "dark"
	}
	return errors.Join(
		call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: v.Width, Height: v.Height, DeviceScaleFactor: 1, Mobile: v.Width < phone}),
		call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}}),
		call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: v.NoScript}),
	)
}

// phone is the width below which a screen is one of a phone.
const phone = 600

// Intercept is what the driver does with requests.
type Intercept struct {
	// Files are served in place of other hosts, by their URLs.
	Files map[string]string
	// Headers are added to requests with a URL that matches Pattern, in which * is any text.
	Pattern string
	Headers map[string]string
}

// Intercept intercepts requests from now on.
func (b *Browser) Intercept(i Intercept, _ *None) error {
	b.mu.Lock()
	b.intercept = i
	b.mu.Unlock()
	var p fetch.EnableParams
	if i.Pattern != "" {
		p.Patterns = append(p.Patterns, &fetch.RequestPattern{URLPattern: i.Pattern})
	}
	for url := range i.Files {
		p.Patterns = append(p.Patterns, &fetch.RequestPattern{URLPattern: url})
	}
	return call(b, fetch.Enable, p)
}

// paused answers a request with its file, or adds headers to it.
func (b *Browser) paused(e *fetch.EventRequestPaused) {
	b.mu.Lock()
	i := b.intercept
	b.mu.Unlock()
	var err error
	if path, is := i.Files[e.Request.URL]; is {
		err = b.serve(e.RequestID, path)
	} else {
		onward := fetch.ContinueRequestParams{RequestID: e.RequestID}
		for name, value := range e.Request.Headers {
			onward.Headers = append(onward.Headers, &fetch.HeaderEntry{Name: name, Value: fmt.Sprint(value)})
		}
		for name, value := range i.Headers {
			onward.Headers = append(onward.Headers, &fetch.HeaderEntry{Name: name, Value: value})
		}
		err = call(b, fetch.ContinueRequest, onward)
	}
	if err != nil {
		slog.Warn("an intercepted request was not continued", "url", e.Request.URL, "error", err)
	}
}

// serve answers a request with a file.
func (b *Browser) serve(id fetch.RequestID, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	answer := fetch.FulfillRequestParams{RequestID: id, ResponseCode: http.StatusOK, Body: text}
	for name, value := range map[string]string{"Content-Type": mime.TypeByExtension(filepath.Ext(path)), "Access-Control-Allow-Origin": "*"} {
		answer.ResponseHeaders = append(answer.ResponseHeaders, &fetch.HeaderEntry{Name: name, Value: value})
	}
	return call(b, fetch.FulfillRequest, answer)
}

// Screenshot writes the whole page to a file, as PNG.
func (b *Browser) Screenshot(path string, _ *None) error {
	picture, err := run(b, chromedp.FullScreenshot(100))
	if err != nil {
		return fmt.Errorf("take a screenshot: %w", err)
	}
	return os.WriteFile(path, picture, 0o600)
}

// Traffic returns what there was since the last call.
func (b *Browser) Traffic(_ None, out *Traffic) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	*out = b.traffic
	b.traffic, b.open = Traffic{}, map[network.RequestID]int{}
	return nil
}
