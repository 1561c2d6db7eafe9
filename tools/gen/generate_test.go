package main

import (
	"strings"
	"testing"
)

func TestProtobufsAreWrittenToTheirGoPackage(t *testing.T) {
	root := tree(t, map[string]string{
		"protos/thing/v1/thing.proto": `syntax = "proto3";
package thing.v1;
import "google/protobuf/timestamp.proto";
import "thing/v1/part.proto";
option go_package = "switchyard.dev/protos/gen/thing/v1;thingv1";
// Thing is explained here.
message Thing { google.protobuf.Timestamp since = 1; Part part = 2; }
service Things { rpc Get(Thing) returns (Thing); }
`,
		"protos/thing/v1/part.proto": `syntax = "proto3";
package thing.v1;
option go_package = "switchyard.dev/protos/gen/thing/v1;thingv1";
message Part {}
`,
	})
	here := root + "/tools/gen" // the plugins are tools of this module
	link(t, here)
	files, err := protobufs(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"thing.pb.go", "part.pb.go", "thing_grpc.pb.go"} {
		if files["protos/gen/thing/v1/"+path] == nil {
			t.Errorf("no protos/gen/thing/v1/%s", path)
		}
	}
	if text := string(files["protos/gen/thing/v1/thing.pb.go"]); !strings.Contains(text, "// Thing is explained here.") {
		t.Error("the comments of the .proto file are lost")
	}
}

func TestABrokenProtobufIsNamedWithItsLine(t *testing.T) {
	root := tree(t, map[string]string{"protos/bad.proto": "syntax = \"proto3\";\nmessage Bad {\n  strin x = 1;\n}\n"})
	_, err := protobufs(root)
	if err == nil || !strings.Contains(err.Error(), "bad.proto:3:") {
		t.Errorf("have the error %v, want one that names bad.proto:3", err)
	}
}
