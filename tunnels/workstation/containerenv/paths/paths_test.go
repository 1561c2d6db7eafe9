package paths_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"switchyard.dev/tunnels/workstation/containerenv/paths"
)

// folders are those that a process has elsewhere.
var folders = []string{"/etc/cart", "/tls", "/etc/one.yaml"}

// ^ marks the place at which a path is moved; nothing else of a value changes.
func TestPathsAreMovedWhereTheyArePaths(t *testing.T) {
	for _, marked := range []string{
		"^/etc/cart", "^/etc/cart/", "^/etc/cart/a.yaml", "^/etc/cart//a/./b", "^/etc/one.yaml", "^/etc/cart/with blank, and comma", "^/etc/cart/a?b=c", "^/etc/cart/a@b",
		"/usr/lib:^/etc/cart", "/usr/lib:^/etc/cart/:^/tls/x:", ":^/tls", "^/etc/cart/a,^/etc/cart/b", "^/etc/cart/a, ^/tls/b", "^/etc/cart/a ^/tls/b", "^/etc/cart/a;^/tls/b", "x,^/tls/b", "^/tls/a\n^/tls/b\n",
		"-Dconfig=^/etc/cart/a", "--config=^/etc/cart --url=http://x:80/tls", "-Durl=http://x:80 -Dtrust=^/tls/a", "--config ^/etc/cart/a", "-Dx==^/tls/a", "a=b=^/tls/a", "-I^/etc/cart/include", "-cp ^/tls/a.jar:^/tls/b.jar Main",
		`--config="^/etc/cart/a b"`, `{"config": "^/etc/cart/a", "all": ["^/tls/a","^/tls/b/"], "n": 5, "url": "http://x/tls"}`, "a: ^/etc/cart/a",
		"file://^/etc/cart/a", "file:^/tls/a", "FILE://localhost^/tls/a", "file://^/tls/a#x", "x=file://^/tls/a,file://^/tls/b",
		"postgres://u:p,w@db.shop:5432/cart?sslmode=verify-full&sslrootcert=^/tls/ca.crt&x=1", "jdbc:postgresql://[::1]/cart?sslkey=^/tls/k", "host=db user=u sslrootcert=^/tls/ca.crt", "jdbc:sqlserver://h:1;trustStore=^/tls/a;x=y",
	} {
		value, want := strings.ReplaceAll(marked, "^", ""), strings.ReplaceAll(marked, "^", "/tmp/x")
		if got, left := paths.Below(value, "/tmp/x", folders); got != want || left {
			t.Errorf("%q became %q, %t, not %q", value, got, left, want)
		}
	}
}

// What names no path of a folder stays as it is, and there is nothing to report.
func TestOtherValuesStay(t *testing.T) {
	for _, value := range []string{
		"", "/", ":", "a:b", "production", "/usr/lib/etc/cart", "/etc/cartridge/x", "/etc/cart.d", "/etc/cart-old/x", "./etc/cart", "~/etc/cart", "http://x:80/etc/cart", "http://u:p@x/etc/cart?a=b", "http://[::1]/etc/cart", "http://[::1]:80/etc/cart/x,http://y/tls",
		"redis://:secret@cache.shop:6379/0", "-Durl=http://x:80", "-Durl=http://x:80/etc/cart", `{"url": "http://x/tls", "n": null}`, "$(UNKNOWN)/etc/cart", "${HOME}/tls", "s3://bucket/tls", "a\xffb",
	} {
		if got, left := paths.Below(value, "/tmp/x", folders); got != value || left {
			t.Errorf("%q became %q, %t", value, got, left)
		}
	}
}

// What names such a path in another way stays as it is as a whole, and is reported.
func TestAmbiguousPathsAreReported(t *testing.T) {
	for _, value := range []string{
		"/etc/cart/a:ro", "lib:/tls/a", "-javaagent:/tls/a.jar=port:80", "jdbc:sqlite:/etc/cart/db", "unix:///etc/cart/s", "sqlite:///tls/db?mode=ro", "@/etc/cart/args", "classpath:/tls/a,/tls/b", "/tls/a -agent:/tls/b",
		"/etc/cart/../cart/a", "/x/../tls/a", "/etc//cart/a", "/etc/./cart", `{"a": "\/etc\/cart\/a"}`, "http://x?ca=%2Ftls%2Fca.crt", "postgres://u:p,/tls/w@db/x", "http://u:/tls@x/", "file://^/tls/a:/tls/b", "/tls*", "C:/tls", "(/tls/a)", "[/tls/a, /tls/b]",
	} {
		if got, left := paths.Below(value, "/tmp/x", folders); got != value || !left {
			t.Errorf("%q became %q, %t", value, got, left)
		}
	}
}

// A folder with a name that means something in JSON or a list is put before a whole value only.
func TestAFolderWithAnOddName(t *testing.T) {
	for value, want := range map[string]string{"/tls/a": `/tmp/"x/tls/a`, "/tls/a:/tls/b": ""} {
		got, left := paths.Below(value, `/tmp/"x`, folders)
		if left != (want == "") || !left && got != want || left && got != value {
			t.Errorf("%q became %q, %t", value, got, left)
		}
	}
}

// Whatever a value is, it is moved so that taking the folder away again gives it back, or stays.
func TestNothingElseChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.SampledFrom([]string{"/etc/cart", "/tls", "/x", "/", ":", ",", " ", ";", "=", "-I", "-D", "a", "http://", "file://", "?", "&", "@", "\"", "'", "{", "[", "..", "\\/", "%2F", "$(A)", "é", "\xff"})).Draw(t, "parts")
		value := strings.Join(parts, "")
		got, left := paths.Below(value, "/tmp/root", folders)
		if back := strings.ReplaceAll(got, "/tmp/root", ""); back != value || left && got != value {
			t.Fatalf("%q became %q, %t", value, got, left)
		}
	})
}
