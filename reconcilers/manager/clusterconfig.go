package manager

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"sigs.k8s.io/yaml"

	"switchyard.dev/reconcilers/forkedworkload/fork"
	"switchyard.dev/sidecars/redirect/spec"
)

// Cluster is what the manager takes from the operator's configuration file,
// cluster_config.yaml. Everything else that stands there is for others.
type Cluster struct {
	// AllowedNamespaces are those in which the operator may work, its own among
	// them; empty means all.
	AllowedNamespaces []string
	// CustomHeaders are further request headers that hold a routing key.
	CustomHeaders []string
	// IptablesMode is with which part of the kernel pods' connections are
	// redirected.
	IptablesMode spec.Mode
	// PatchPowers are those that patches may give a fork though its baseline has them not.
	PatchPowers fork.Powers
}

// clusterFile is the part of the file that is read. The rest of the published
// format is passed over: it may hold values of other types than documented (the
// chart has written a boolean where a text is due).
type clusterFile struct {
	AllowedNamespaces []string `json:"allowedNamespaces"`
	Routing           struct {
		CustomHeaders []string `json:"customHeaders"`
		IptablesMode  string   `json:"iptablesMode"`
	} `json:"routing"`
	Sandboxes struct {
		Patches struct {
			Allow []string `json:"allow"`
		} `json:"patches"`
	} `json:"sandboxes"`
}

// ReadCluster reads the file. One that does not exist means the defaults, which
// are right for a cluster without restrictions.
func ReadCluster(path string) (Cluster, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Cluster{}, nil
	}
	if err != nil {
		return Cluster{}, fmt.Errorf("read the operator's configuration: %w", err)
	}
	c, err := parseCluster(content)
	if err != nil {
		return Cluster{}, fmt.Errorf("read the operator's configuration %s: %w", path, err)
	}
	return c, nil
}

// parseCluster reads the content of the file.
func parseCluster(content []byte) (Cluster, error) {
	var f clusterFile
	if err := yaml.Unmarshal(content, &f); err != nil {
		return Cluster{}, err
	}
	mode, err := spec.ParseMode(f.Routing.IptablesMode)
	if err != nil {
		return Cluster{}, fmt.Errorf("routing.iptablesMode: %w", err)
	}
	c := Cluster{AllowedNamespaces: f.AllowedNamespaces, CustomHeaders: f.Routing.CustomHeaders, IptablesMode: mode}
	if c.PatchPowers, err = fork.ParsePowers(f.Sandboxes.Patches.Allow); err != nil {
		return Cluster{}, fmt.Errorf("%s: %w", fork.SettingPowers, err)
	}
	if len(c.AllowedNamespaces) > 0 && !slices.Contains(c.AllowedNamespaces, operatorNamespace) {
		c.AllowedNamespaces = append(c.AllowedNamespaces, operatorNamespace)
	}
	return c, nil
}
