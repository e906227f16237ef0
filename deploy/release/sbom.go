package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// bom is a software bill of materials: CycloneDX 1.6, the parts that are used. It has
// no serial number and no time, which would differ from run to run.
type bom struct {
	Format       string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl,omitempty"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

// sbom lists what programs were built from, as Go's linker has noted it in them.
func sbom(version string, programs []file) ([]byte, error) {
	release := component{Type: "application", Ref: "keyfold-release", Name: "keyfold", Version: version}
	b := bom{Format: "CycloneDX", Spec: "1.6", Version: 1, Metadata: metadata{release}}
	contains := dependency{Ref: release.Ref}
	libraries := map[string]component{}
	for _, p := range programs {
		modules, err := modules(p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		uses := dependency{Ref: p.name}
		for _, m := range modules {
			libraries[m.Ref] = m
			uses.DependsOn = append(uses.DependsOn, m.Ref)
		}
		contains.DependsOn = append(contains.DependsOn, p.name)
		b.Components = append(b.Components, component{Type: "application", Ref: p.name, Name: p.name, Version: version})
		b.Dependencies = append(b.Dependencies, uses)
	}
	for _, ref := range slices.Sorted(maps.Keys(libraries)) {
		b.Components = append(b.Components, libraries[ref])
	}
	b.Dependencies = append(b.Dependencies, contains)
	text, err := json.MarshalIndent(b, "", "  ")
	return append(text, '\n'), err
}

// modules returns a program's modules, Go's standard library first.
func modules(program file) ([]component, error) {
	info, err := buildinfo.Read(bytes.NewReader(program.content))
	if err != nil {
		return nil, err
	}
	all := []component{library("stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		all = append(all, library(m.Path, m.Version))
	}
	return all, nil
}

// library returns a module. The path keeps its capitals, since Go tells modules
// apart by them and so do the tools that read package URLs of Go.
func library(path, version string) component {
	purl := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return component{Type: "library", Ref: purl, Name: path, Version: version, PURL: purl}
}
