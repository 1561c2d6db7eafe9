package identity

import (
	"os"
	"os/user"
	"runtime"
	"runtime/debug"
	"strings"
)

// Labels are what people see of this workstation.
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

// cut bounds a label, which goes on as text and has to be one.
func cut(text string) string {
	const most = 256
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}
