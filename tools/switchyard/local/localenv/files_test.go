package localenv

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/tunnels/workstation/containerenv"
)

// secretFiles are the files of a baseline that mounts a Secret and a ConfigMap, with the usual modes.
func secretFiles(t *testing.T) []containerenv.File {
	t.Helper()
	ref := corev1.LocalObjectReference{Name: "o"}
	r, err := containerenv.Resolve(containerenv.Input{
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "a", VolumeMounts: []corev1.VolumeMount{{Name: "s", MountPath: "/deep/secret"}, {Name: "m", MountPath: "/there"}, {Name: "p", MountPath: "/all"}}}},
			Volumes: []corev1.Volume{
				{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "o", DefaultMode: new(int32(0o755))}}},
				{Name: "m", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: ref}}},
				{Name: "p", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{LocalObjectReference: ref}}}}}},
			},
		}},
		ConfigMaps: map[string]*corev1.ConfigMap{"o": {Data: map[string]string{"k": "public"}}},
		Secrets:    map[string]*corev1.Secret{"o": {Data: map[string][]byte{"k": []byte("secret")}}},
		Outputs:    map[string]map[string][]byte{"db": {"password": []byte("secret")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r.Files
}

func TestFilesOfSecretsAreForTheirOwnerAlone(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "root")
	if err := os.MkdirAll(filepath.Join(folder, "there"), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 { // The second time over existing files.
		if _, err := Write(folder, secretFiles(t), false); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]fs.FileMode{
		"deep": 0o700, "deep/secret": 0o700, "deep/secret/k": 0o700, "all": 0o700, "all/k": 0o600, "signadot/resources/db": 0o700, "signadot/resources/db/password": 0o600,
		"there": 0o755, "there/k": 0o644, // Nothing of a Secret.
	} {
		if info, err := os.Stat(filepath.Join(folder, path)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, not %s", path, info, err, want)
		}
	}
}

func TestNoLinkEscapesTheFolder(t *testing.T) {
	outside, folder := t.TempDir(), t.TempDir()
	for _, link := range []string{"there", "all"} {
		if err := os.Symlink(outside, filepath.Join(folder, link)); err != nil {
			t.Fatal(err)
		}
	}
	if written, err := Write(folder, secretFiles(t), false); err == nil {
		t.Errorf("it wrote %v", written)
	}
	t.Chdir(folder)
	if got, err := destination("", "there"); err == nil {
		t.Errorf("a link by the name of the default folder: %s", got)
	}
	if got, err := destination("there", "x"); err != nil || got != "there" {
		t.Errorf("a link that the user names: %s, %v", got, err)
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("outside there is %v, %v", left, err)
	}
}
