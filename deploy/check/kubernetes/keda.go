package kubernetes

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/expr-lang/expr"
	"sigs.k8s.io/yaml"
)

const (
	kedaVersion = "keda.sh/v1alpha1"
	// KEDA is read as data and not imported: it would bring some 200 modules.
	kedaModule = "github.com/kedacore/keda/v2@v2.20.2"
)

// checkKEDA compares an object with KEDA's schema, its triggers with the scalers, and
// runs its formula.
func checkKEDA(kind string, object map[string]any) error {
	folder, err := download(kedaModule)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(folder, "config/crd/bases/keda.sh_"+strings.ToLower(kind)+"s.yaml"))
	if err != nil {
		return err
	}
	var definition struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					Schema schema `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &definition); err != nil {
		return err
	}
	if err := definition.Spec.Versions[0].Schema.Schema.check("", object); err != nil {
		return err
	}
	if kind != "ScaledObject" {
		return nil
	}
	return checkTriggers(folder, object)
}

func download(module string) (folder string, err error) {
	out, err := exec.Command("go", "mod", "download", "-json", module).Output()
	var answer struct{ Dir, Error string }
	if err := errors.Join(err, json.Unmarshal(out, &answer)); err != nil || answer.Error != "" {
		return "", fmt.Errorf("go mod download %s: %w %s", module, err, answer.Error)
	}
	return answer.Dir, nil
}

var read = regexp.MustCompile("keda:\"name=([A-Za-z]+)")

// checkTriggers finds metadata that a scaler does not read, and a formula that does not
// give a number of the triggers' values.
func checkTriggers(folder string, object map[string]any) error {
	spec := object["spec"].(map[string]any)
	values := map[string]any{}
	for _, t := range spec["triggers"].([]any) {
		trigger := t.(map[string]any)
		file := strings.ReplaceAll(trigger["type"].(string), "-", "_") + "_scaler.go"
		scaler, err := os.ReadFile(filepath.Join(folder, "pkg/scalers", file))
		if err != nil {
			return err
		}
		names := map[string]bool{}
		for _, name := range read.FindAllStringSubmatch(string(scaler), -1) {
			names[name[1]] = true
		}
		for name := range trigger["metadata"].(map[string]any) {
			if !names[name] {
				return fmt.Errorf("the scaler %s reads no %s", trigger["type"], name)
			}
		}
		values[trigger["name"].(string)] = 0.0
	}
	formula := spec["advanced"].(map[string]any)["scalingModifiers"].(map[string]any)["formula"].(string)
	_, err := formulaOf(formula, values)
	return err
}

// formulaOf computes a formula as KEDA does: what is no float64 is an error there.
func formulaOf(formula string, values map[string]any) (float64, error) {
	compiled, err := expr.Compile(formula, expr.Env(values))
	if err != nil {
		return 0, err
	}
	result, err := expr.Run(compiled, values)
	if err != nil {
		return 0, err
	}
	number, ok := result.(float64)
	if !ok {
		return 0, fmt.Errorf("the formula gives a %T, and no float64", result)
	}
	return number, nil
}
