package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// The definition of the control plane's REST API, and what is generated beside it.
const (
	controlPlaneDir        = "protos/controlplane/v2"
	controlPlaneDefinition = controlPlaneDir + "/openapi.yaml"
	controlPlaneCode       = controlPlaneDir + "/zz_generated.controlplane.go"
	controlPlaneDocument   = controlPlaneDir + "/zz_generated.openapi.json"
)

// controlPlane generates the types and the client of the REST API, by oapi-codegen with the options
// of controlplane.yaml, and its definition as JSON.
func controlPlane(root string) (Files, error) {
	definition := filepath.Join(root, controlPlaneDefinition)
	text, err := os.ReadFile(definition)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	document, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", controlPlaneDefinition, err)
	}
	var code, problems bytes.Buffer
	cmd := exec.Command("go", "tool", "oapi-codegen", "-config", "controlplane.yaml", definition)
	cmd.Dir = filepath.Join(root, toolDir)
	cmd.Stdout, cmd.Stderr = &code, &problems
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("oapi-codegen %s: %w: %s", controlPlaneDefinition, err, strings.TrimSpace(problems.String()))
	}
	return Files{controlPlaneCode: code.Bytes(), controlPlaneDocument: append(document, '\n')}, nil
}
