package containerenv

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// tokenFolder is the folder of the service account's token.
const tokenFolder = "/var/run/secrets/kubernetes.io/serviceaccount"

// defaultMode is that of files of volumes.
const defaultMode = 0o644

// ownerOnly masks the mode of a file with the value of a Secret: in the pod only its containers
// reach the file, on a workstation every user might.
const ownerOnly = 0o700

// volumes adds the files of volumes.
func (r *resolution) volumes() {
	mounts := slices.Clone(r.container.VolumeMounts)
	// A mount within another one covers it.
	slices.SortStableFunc(mounts, func(a, b corev1.VolumeMount) int {
		return strings.Compare(path.Clean(a.MountPath), path.Clean(b.MountPath))
	})
	for _, m := range mounts {
		for _, v := range r.in.Template.Spec.Volumes {
			if v.Name == m.Name {
				r.mount(m, v)
			}
		}
	}
	for name, outputs := range r.in.Outputs {
		for key, value := range outputs {
			if plain(name) && plain(key) {
				r.put(path.Join(ResourcesFolder, name, key), File{Data: value, Mode: 0o600, Source: "resource " + name + ", output " + key})
			}
		}
	}
}

// plain reports whether a name is that of a single file.
func plain(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\\\x00")
}

// inside returns the cleaned form of a path within a volume; false for a path that is outside of
// it.
func inside(p string) (string, bool) {
	if p == "" || path.IsAbs(p) || strings.ContainsRune(p, 0) || slices.Contains(strings.Split(p, "/"), "..") {
		return "", false
	}
	return path.Clean(p), true
}

func (r *resolution) put(at string, f File) {
	f.Path = path.Clean("/" + at)
	r.files[f.Path] = f
}

// mount makes the files of one mount.
func (r *resolution) mount(m corev1.VolumeMount, v corev1.Volume) {
	at := path.Clean("/" + m.MountPath)
	if at == tokenFolder {
		return // token adds a note about it.
	}
	parts := sources(v)
	if parts == nil {
		r.apart(at, v)
		return
	}
	r.mounts = append(r.mounts, at)
	sub := m.SubPath
	if m.SubPathExpr != "" {
		sub = expand(m.SubPathExpr, func(name string) (string, bool) { e, ok := r.env[name]; return e.Value, ok })
	}
	content := map[string]File{}
	for _, p := range parts {
		r.part(content, p, v.Name)
	}
	if sub == "" {
		if len(content) == 0 {
			r.put(at, File{Folder: true, Mode: 0o755, Source: "volume " + v.Name})
		}
		for p, f := range content {
			r.put(path.Join(at, p), f)
		}
		return
	}
	sub = path.Clean(sub)
	if f, ok := content[sub]; ok {
		r.put(at, f)
		return
	}
	for p, f := range content {
		if rest, ok := strings.CutPrefix(p, sub+"/"); ok {
			r.put(path.Join(at, rest), f)
		}
	}
}

// apart handles a volume with content that is not from objects: it adds a folder and a note.
func (r *resolution) apart(at string, v corev1.Volume) {
	r.mounts = append(r.mounts, at)
	r.put(at, File{Folder: true, Mode: 0o755, Source: "volume " + v.Name})
	if v.EmptyDir != nil {
		return
	}
	r.note("Volume %s, at %s, stays in the cluster; there is an empty folder in its place.", v.Name, at)
}

// sources returns the sources of a volume; nil if it has no objects.
func sources(v corev1.Volume) []corev1.VolumeProjection {
	switch {
	case v.ConfigMap != nil:
		return []corev1.VolumeProjection{{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: v.ConfigMap.LocalObjectReference, Items: moded(v.ConfigMap.Items, v.ConfigMap.DefaultMode), Optional: v.ConfigMap.Optional}}}
	case v.Secret != nil:
		return []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: v.Secret.SecretName}, Items: moded(v.Secret.Items, v.Secret.DefaultMode), Optional: v.Secret.Optional}}}
	case v.DownwardAPI != nil:
		return []corev1.VolumeProjection{{DownwardAPI: &corev1.DownwardAPIProjection{Items: v.DownwardAPI.Items}}}
	case v.Projected != nil:
		return v.Projected.Sources
	}
	return nil
}

// moded returns items, each with the volume's mode if there is one.
func moded(items []corev1.KeyToPath, mode *int32) []corev1.KeyToPath {
	out := slices.Clone(items)
	for i := range out {
		out[i].Mode = cmp.Or(out[i].Mode, mode)
	}
	return out
}

// modeOf returns the mode of a volume's file.
func (r *resolution) modeOf(volume string, own *int32) uint32 {
	mode := own
	for _, v := range r.in.Template.Spec.Volumes {
		if v.Name != volume || mode != nil {
			continue
		}
		switch {
		case v.ConfigMap != nil:
			mode = v.ConfigMap.DefaultMode
		case v.Secret != nil:
			mode = v.Secret.DefaultMode
		case v.DownwardAPI != nil:
			mode = v.DownwardAPI.DefaultMode
		case v.Projected != nil:
			mode = v.Projected.DefaultMode
		}
	}
	if mode == nil {
		return defaultMode
	}
	return uint32(*mode) & 0o777
}

// part adds the files of one part of a volume.
func (r *resolution) part(content map[string]File, p corev1.VolumeProjection, volume string) {
	switch {
	case p.ConfigMap != nil:
		r.object(content, "ConfigMap", p.ConfigMap.Name, p.ConfigMap.Items, is(p.ConfigMap.Optional), volume)
	case p.Secret != nil:
		r.object(content, "Secret", p.Secret.Name, p.Secret.Items, is(p.Secret.Optional), volume)
	case p.DownwardAPI != nil:
		r.downward(content, p.DownwardAPI.Items, volume)
	case p.ServiceAccountToken != nil:
		r.note("Volume %s has a token of service account %s, which is not copied: the local process speaks to the API server with your own rights, or not at all.", volume, serviceAccount(r.in.Template))
	default:
		r.note("Volume %s has a part that only a pod can have; it is left out.", volume)
	}
}

// object adds the files of a ConfigMap or a Secret.
func (r *resolution) object(content map[string]File, kind, name string, items []corev1.KeyToPath, optional bool, volume string) {
	data, ok := r.data(kind, name)
	if !ok {
		r.lacks(kind, name, "volume "+volume, optional)
		return
	}
	if len(items) == 0 {
		for _, key := range slices.Sorted(maps.Keys(data)) {
			items = append(items, corev1.KeyToPath{Key: key, Path: key})
		}
	}
	for _, item := range items {
		value, has := data[item.Key]
		at, ok := inside(item.Path)
		switch {
		case !has && !optional:
			r.problem("volume %s needs key %q of %s %s/%s, which is not there", volume, item.Key, kind, r.in.Namespace, name)
		case has && !ok:
			r.problem("volume %s has a path outside of the volume: %q", volume, item.Path)
		case has:
			mode := r.modeOf(volume, item.Mode)
			if kind == "Secret" {
				mode &= ownerOnly
			}
			content[at] = File{Data: value, Mode: mode, Source: kind + " " + name + ", key " + item.Key}
		}
	}
}

// downward adds the files of the downward API.
func (r *resolution) downward(content map[string]File, items []corev1.DownwardAPIVolumeFile, volume string) {
	for _, item := range items {
		at, ok := inside(item.Path)
		if !ok {
			r.problem("volume %s has a path outside of the volume: %q", volume, item.Path)
			continue
		}
		text, from, known := "", "", false
		switch {
		case item.FieldRef != nil:
			from = item.FieldRef.FieldPath
			text, known = r.field(from)
		case item.ResourceFieldRef != nil:
			from = item.ResourceFieldRef.Resource
			text, known = r.amount(item.ResourceFieldRef)
		}
		if !known {
			r.note("File %s of volume %s is left out: %s of a pod is not known here.", item.Path, volume, from)
			continue
		}
		content[at] = File{Data: []byte(text), Mode: r.modeOf(volume, item.Mode), Source: "field " + from}
	}
}

// token adds a note when pods of the baseline have a token, which is not copied.
func (r *resolution) token() {
	mounts := true
	if sa := r.in.ServiceAccount; sa != nil && sa.AutomountServiceAccountToken != nil {
		mounts = *sa.AutomountServiceAccountToken
	}
	if own := r.in.Template.Spec.AutomountServiceAccountToken; own != nil {
		mounts = *own
	}
	if mounts {
		r.note("Pods of the baseline have a token of service account %s at %s, which is not copied: the local process speaks to the API server with your own rights, or not at all.", serviceAccount(r.in.Template), tokenFolder)
	}
}
