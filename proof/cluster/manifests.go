package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

const (
	namespace     = "shop"
	kedaNamespace = "keda"
	objects       = 22 // with notifications
)

// define creates KEDA's definitions, and a namespace where pods are held to the profile "restricted".
func (p *plane) define(ctx context.Context, crds string) error {
	if _, err := p.kubectl(ctx, "create", "-k", crds); err != nil {
		return err
	}
	if _, err := p.kubectl(ctx, "wait", "--for=condition=Established", "crd", "--all", "--timeout=5m"); err != nil {
		return err
	}
	labels := map[string]string{}
	for _, mode := range []string{"enforce", "warn", "audit"} {
		labels["pod-security.kubernetes.io/"+mode] = "restricted"
	}
	return p.call(ctx, http.MethodPost, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": namespace, "labels": labels}}, nil)
}

// overlay copies the manifests and writes an overlay as kustomization.yaml describes it, with notifications and
// more lines.
func (p *plane) overlay(name, kustomize, more string) (folder string, err error) {
	if err := os.CopyFS(p.file(name+"/keyfold"), os.DirFS(kustomize)); err != nil {
		return "", err
	}
	folder = p.file(name + "/overlay")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return "", err
	}
	return folder, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte("resources: [../keyfold]\nnamespace: "+namespace+"\n"+
		"images: [{name: keyfold, newName: registry.example/keyfold, newTag: \"1.0\"}]\n"+
		"configMapGenerator: [{name: keyfold, behavior: merge, literals: [EMBEDDER=openai]}]\ncomponents: [../keyfold/notify]\n"+more), 0o600)
}

// apply applies an overlay. The API server refuses unknown fields.
func (p *plane) apply(ctx context.Context, folder string, more ...string) (string, error) {
	return p.kubectl(ctx, append([]string{"apply", "--validate=strict", "-k", folder}, more...)...)
}

// manifests applies the manifests, and shows that what is wrong with them would be seen.
func manifests(ctx context.Context, out io.Writer, p *plane, c cli) error {
	for i, fault := range faults {
		if err := p.refuses(ctx, fmt.Sprint("fault", i), c.Kustomize, fault); err != nil {
			return err
		}
	}
	folder, err := p.overlay("manifests", c.Kustomize, "")
	if err != nil {
		return err
	}
	answer, err := p.apply(ctx, folder)
	if err != nil {
		return err
	}
	fmt.Fprint(out, answer)
	if n := strings.Count(answer, " created\n"); n != objects {
		return fmt.Errorf("%d objects were created, and not %d", n, objects)
	}
	pods, err := p.admits(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d objects strictly valid, %d kinds of pods admitted as restricted, %d faults refused\n", objects, pods, len(faults))
	return nil
}

// A fault is made in a file of the manifests, and the answer names it.
type fault struct{ file, from, to, says string }

var faults = []fault{
	{"worker.yaml", "readOnlyRootFilesystem", "readonlyRootFilesystem", "unknown field"},
	{"worker.yaml", "runAsNonRoot: true", "runAsNonRoot: false", "runAsNonRoot != true"},
	{"worker.yaml", "minAvailable: 2", "minAvailable: two", "minAvailable"},
	{"setup.yaml", "drop: [ALL]", "drop: [CHOWN]", "unrestricted capabilities"},
	{"scaling.yaml", "minReplicaCount", "minReplicas", "unknown field"},
	{"scaling.yaml", "stabilizationWindowSeconds: 120", `stabilizationWindowSeconds: "120"`, "stabilizationWindowSeconds"},
}

func (p *plane) refuses(ctx context.Context, name, kustomize string, f fault) error {
	folder, err := p.overlay(name, kustomize, "")
	if err != nil {
		return err
	}
	path := p.file(name + "/keyfold/" + f.file)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !strings.Contains(string(text), f.from) {
		return fmt.Errorf("no %s in %s", f.from, f.file)
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), f.from, f.to)), 0o600); err != nil {
		return err
	}
	switch _, err := p.apply(ctx, folder, "--dry-run=server"); {
	case err == nil:
		return fmt.Errorf("%s in %s is not refused", f.to, f.file)
	case !strings.Contains(err.Error(), f.says):
		return fmt.Errorf("%s in %s is not refused as %q: %w", f.to, f.file, f.says, err)
	}
	return nil
}

// admits has the API server look at a pod of each template, as controllers create them: only pods are held to the
// namespace's profile, and what makes them is warned about.
func (p *plane) admits(ctx context.Context) (pods int, err error) {
	account := map[string]any{"metadata": map[string]any{"name": "default"}}
	if err := p.call(ctx, http.MethodPost, "/api/v1/namespaces/"+namespace+"/serviceaccounts", account, nil); err != nil {
		return 0, err
	}
	answer, err := p.kubectl(ctx, "get", "deployments,jobs,cronjobs", "-n", namespace, "-o", "json")
	if err != nil {
		return 0, err
	}
	var made struct {
		Items []struct {
			Metadata struct{ Name string }
			Spec     struct {
				Template    json.RawMessage
				JobTemplate struct {
					Spec struct{ Template json.RawMessage }
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(answer), &made); err != nil {
		return 0, err
	}
	for _, item := range made.Items {
		template := item.Spec.Template
		if template == nil {
			template = item.Spec.JobTemplate.Spec.Template
		}
		var pod map[string]any
		if err := json.Unmarshal(template, &pod); err != nil {
			return 0, err
		}
		pod["metadata"].(map[string]any)["name"] = item.Metadata.Name
		if err := p.call(ctx, http.MethodPost, "/api/v1/namespaces/"+namespace+"/pods?dryRun=All&fieldValidation=Strict", pod, nil); err != nil {
			return 0, err
		}
	}
	return len(made.Items), nil
}
