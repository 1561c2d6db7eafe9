// Package browser controls a Chromium, and tests the control plane's page and previews with it.
//
//	Prepare   Chromium of Debian, the driver and axe-core   parts.go
//	Start     a browser with an empty profile               browser.go
//
// The driver is a program of its own (driver), since chromedp and its protocol are large. All names that a browser may
// use are mapped to addresses of this machine; others are not found.
package browser
