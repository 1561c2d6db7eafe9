package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"time"
)

//go:embed style.css script.js icon.svg
var files embed.FS

// AssetsPath is that of the style, the script and the icon.
const AssetsPath = "/assets/"

// asset returns the path of a file, which has a digest of its content.
func asset(name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err) // templates name files of this package
	}
	sum := sha256.Sum256(text)
	return AssetsPath + hex.EncodeToString(sum[:8]) + "/" + name
}

// Assets serves the files below AssetsPath. A path of another release has the status 404.
func Assets(w http.ResponseWriter, r *http.Request) {
	name := path.Base(r.URL.Path)
	text, err := files.ReadFile(name)
	if err != nil || r.URL.Path != asset(name) || r.Method != http.MethodGet && r.Method != http.MethodHead {
		Message{Status: http.StatusNotFound, Title: "Not found", Text: []string{"There is no such file. Reload the page."}}.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(text))
}
