package deploy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/process"
)

func TestMain(m *testing.M) { process.Main(m) }

// built is the program that compares manifests with the schemas, built once. It is a module
// of its own.
var built = sync.OnceValues(func() (program string, err error) {
	dir, err := process.TempDir()
	if err == nil {
		program = filepath.Join(dir, "check")
		err = inCheck("build", "-o", program, ".")
	}
	return program, err
})

func buildCheck(t *testing.T) string {
	t.Helper()
	program, err := built()
	must.OK(t, err)
	return program
}

func inCheck(arguments ...string) error {
	command := exec.Command("go", arguments...)
	command.Dir = "check"
	out, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("go %v: %w\n%s", arguments, err, out)
	}
	return nil
}

// checked runs the program and reads the JSON that it prints.
func checked(t *testing.T, into any, check string, arguments ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), check, arguments...)
	var faults strings.Builder
	command.Stderr = &faults
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, faults.String())
	}
	must.OK(t, json.Unmarshal(out, into))
}

// overlay copies the manifests and writes an overlay as kustomization.yaml describes it,
// with notifications and streams.
func overlay(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	must.OK(t, os.CopyFS(filepath.Join(folder, "keyfold"), os.DirFS("kubernetes")))
	write(t, filepath.Join(folder, "shop", "kustomization.yaml"), "resources: [../keyfold]\nnamespace: shop\n"+
		"images: [{name: keyfold, newName: registry.example/keyfold, newTag: \"1.0\"}]\n"+
		"configMapGenerator: [{name: keyfold, behavior: merge, literals: [EMBEDDER=openai]}]\ncomponents: [../keyfold/notify, ../keyfold/streams]\n")
	return folder
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must.OK(t, os.WriteFile(path, []byte(text), 0o600))
}

// object is what the tests read of a manifest.
type object struct {
	Kind     string
	Metadata struct{ Name, Namespace string }
	Data     map[string]string
	Spec     struct {
		Replicas    *int
		Type        string // of a Service
		Selector    json.RawMessage
		Template    *template
		JobTemplate struct{ Spec struct{ Template *template } }
	}
}

type template struct {
	Metadata struct{ Labels map[string]string }
	Spec     struct {
		TerminationGracePeriodSeconds int
		AutomountServiceAccountToken  *bool
		SecurityContext               struct {
			RunAsNonRoot bool
			RunAsUser    int
		}
		Containers []struct {
			Image           string
			Args            []string
			EnvFrom         []struct{ ConfigMapRef, SecretRef struct{ Name string } }
			Env             []struct{ Name, Value string }
			LivenessProbe   probe
			ReadinessProbe  probe
			SecurityContext struct {
				ReadOnlyRootFilesystem   bool
				AllowPrivilegeEscalation *bool
			}
			Resources struct{ Limits map[string]string }
		}
		Volumes []struct{ Secret struct{ SecretName string } }
	}
}

type probe struct{ HTTPGet struct{ Path, Port string } }

func render(t *testing.T, check, folder string) (objects []object) {
	t.Helper()
	checked(t, &objects, check, "kubernetes", folder)
	return objects
}

// The manifests render, with an overlay and without, and each object is one that
// Kubernetes or KEDA knows. Every pod runs without root and without a writable file
// system, has its settings, and takes long enough to stop.
//
// Promise(manifests/kubernetes): Kubernetes and KEDA take the manifests: rendered, decoded, and
// compared with KEDA's schema and scalers.
// Figure: Kubernetes 1.31 and KEDA 2.16, strict validation; a worker without capabilities on a
// read-only root stopped within 1.3 s
func TestKubernetesManifests(t *testing.T) {
	check := buildCheck(t)
	folder := overlay(t)
	if n := len(render(t, check, "kubernetes")); n != 15 {
		t.Errorf("without notifications there are %d objects", n)
	}
	objects := render(t, check, filepath.Join(folder, "shop"))
	kinds, settings, configured := map[string]int{}, map[string]string{}, ""
	for _, o := range objects {
		kinds[o.Kind]++
		if o.Metadata.Namespace != "shop" {
			t.Errorf("%s %s is in the namespace %q", o.Kind, o.Metadata.Name, o.Metadata.Namespace)
		}
		if o.Kind == "ConfigMap" {
			settings, configured = o.Data, o.Metadata.Name
		}
	}
	if got := fmt.Sprint(kinds); got != "map[ConfigMap:1 CronJob:1 Deployment:6 Job:2 PodDisruptionBudget:5 ScaledObject:1 Service:5 TriggerAuthentication:1]" {
		t.Errorf("the objects are %s", got)
	}
	stop, err := strconv.Atoi(settings["WORKER_SHUTDOWN_TIMEOUT"])
	must.OK(t, err)
	const longestWindow = 15 // EMBEDDING_BATCH_MAX_DELAY
	for _, o := range objects {
		pod := o.Spec.Template
		if o.Kind == "CronJob" {
			pod = o.Spec.JobTemplate.Spec.Template
		}
		if pod == nil {
			continue
		}
		name, c := o.Metadata.Name, pod.Spec.Containers[0]
		if pod.Metadata.Labels["app.kubernetes.io/name"] != name {
			t.Errorf("%s: the labels are %v", name, pod.Metadata.Labels)
		}
		if !pod.Spec.SecurityContext.RunAsNonRoot || pod.Spec.SecurityContext.RunAsUser == 0 || !c.SecurityContext.ReadOnlyRootFilesystem ||
			c.SecurityContext.AllowPrivilegeEscalation == nil || *c.SecurityContext.AllowPrivilegeEscalation ||
			pod.Spec.AutomountServiceAccountToken == nil || *pod.Spec.AutomountServiceAccountToken {
			t.Errorf("%s may do more than it has to", name)
		}
		if c.Image != "registry.example/keyfold:1.0" || len(c.EnvFrom) != 2 || c.EnvFrom[0].ConfigMapRef.Name != configured || c.EnvFrom[1].SecretRef.Name != "keyfold" ||
			c.Resources.Limits["memory"] == "" {
			t.Errorf("%s runs %s with the settings of %v within %v", name, c.Image, c.EnvFrom, c.Resources.Limits)
		}
		if o.Kind != "Deployment" {
			continue
		}
		port := "admin"
		if name == "keyfold-dashboard" { // its pages are all that it serves
			port = "http"
		}
		if c.LivenessProbe.HTTPGet.Path != "/livez" || c.ReadinessProbe.HTTPGet.Path != "/readyz" || c.ReadinessProbe.HTTPGet.Port != port {
			t.Errorf("%s has the probes %v and %v", name, c.LivenessProbe, c.ReadinessProbe)
		}
		least := stop
		if slices.Contains(c.Args, "work") {
			least += longestWindow
		}
		if grace := pod.Spec.TerminationGracePeriodSeconds; grace <= least {
			t.Errorf("%s has %d s to stop and needs more than %d", name, grace, least)
		}
		if name == "keyfold-worker" && o.Spec.Replicas != nil {
			t.Error("each apply would undo what KEDA has scaled")
		}
	}
}

// The policy of the autoscaler is the specification's.
//
// Promise(manifests/autoscaler): The autoscaler has the specification's policy, by KEDA's own formula
// and a model of the autoscaler's algorithm.
// Figure: `make cluster`: with 1,500 ready 3, 5, 7, 9, 10 workers; with 500 the 10 stayed; with none
// 9, 8, 7, 6, 5, 4, 3
// Promise(partitions/slots)
func TestKubernetesPolicy(t *testing.T) {
	if err := inCheck("test", "-count=1", "-vet=off", "./kubernetes"); err != nil {
		t.Error(err)
	}
}

// What Kubernetes or KEDA would refuse or ignore is refused.
//
// Promise(manifests/kubernetes)
func TestKubernetesCheckRefuses(t *testing.T) {
	check := buildCheck(t)
	for _, change := range []struct{ file, from, to, says string }{
		{"worker.yaml", "readOnlyRootFilesystem", "readonlyRootFilesystem", "readonlyRootFilesystem"},
		{"worker.yaml", "terminationGracePeriodSeconds: 45", "terminationGracePeriodSeconds: 45s", "terminationGracePeriodSeconds"},
		{"scaling.yaml", "minReplicaCount", "minReplicas", "minReplicas"},
		{"scaling.yaml", "stabilizationWindowSeconds: 120", `stabilizationWindowSeconds: "120"`, "stabilizationWindowSeconds"},
		{"scaling.yaml", "excludeUnacknowledged", "excludeUnacked", "excludeUnacked"},
		{"scaling.yaml", "ready > 1000", "readyMessages > 1000", "readyMessages"},
		{"streams/kustomization.yaml", "serverAddress", "serverAdress", "serverAdress"},
		{"streams/kustomization.yaml", "lag > 60", "late > 60", "late"},
		{"ingest.yaml", "kind: Service", "kind: Servise", "Servise"},
		{"kustomization.yaml", "resources: [setup.yaml", "resources: [set-up.yaml", "set-up.yaml"},
	} {
		t.Run(change.to, func(t *testing.T) {
			folder := filepath.Join(overlay(t), "keyfold")
			path := filepath.Join(folder, change.file)
			text, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(text), change.from) {
				t.Fatalf("no %s in %s: %v", change.from, change.file, err)
			}
			write(t, path, strings.ReplaceAll(string(text), change.from, change.to))
			if strings.Contains(change.file, "/") { // a component is a part of an overlay
				folder = filepath.Join(folder, "..", "shop")
			}
			out, err := exec.CommandContext(t.Context(), check, "kubernetes", folder).CombinedOutput()
			if err == nil || !strings.Contains(string(out), change.says) {
				t.Errorf("it says %v: %s", err, out)
			}
		})
	}
}
