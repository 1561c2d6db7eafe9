package identity

import (
	"os"
	"os/user"
	"runtime"
	"runtime/debug"
	"strings"
)

// Labels returns the labels of this workstation, for display: os, host, user and version.
func Labels(getenv func(string) string) map[string]string {
	out := map[string]string{"os": runtime.GOOS + "/" + runtime.GOARCH}
	if host, err := os.Hostname(); err == nil {
		out["host"] = cut(host)
	}
	name := getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if name != "" {
		out["user"] = cut(name)
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		out["version"] = cut(info.Main.Version)
	}
	return out
}

// cut limits the length of a label, without splitting a character.
func cut(text string) string {
	const most = 256
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}
