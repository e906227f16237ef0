package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
	"keyfold/internal/version"
)

// release makes a release of this program, which is small, for this machine.
func release(t *testing.T) (dir, name string) {
	t.Helper()
	dir = t.TempDir()
	c := cli{
		Version: "v1.2.3", Out: dir, Root: "../..", Targets: []string{runtime.GOOS + "/" + runtime.GOARCH},
		Programs: []string{"./deploy/release"},
	}
	must.OK(t, c.run(t.Context(), io.Discard))
	return dir, "keyfold_v1.2.3_" + runtime.GOOS + "_" + runtime.GOARCH
}

func read(t *testing.T, elements ...string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(elements...))
	must.OK(t, err)
	return content
}

// unpack returns an archive's files by their names in its folder.
func unpack(t *testing.T, archived []byte, folder string) map[string]file {
	t.Helper()
	uncompressed, err := gzip.NewReader(bytes.NewReader(archived))
	must.OK(t, err)
	files := map[string]file{}
	for r := tar.NewReader(uncompressed); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		must.OK(t, err)
		name, inside := strings.CutPrefix(header.Name, folder+"/")
		if !inside || !header.ModTime.Equal(epoch) || header.Uid != 0 || header.Gid != 0 || header.Uname != "" {
			t.Errorf("%s is of %v, user %d %q", header.Name, header.ModTime, header.Uid, header.Uname)
		}
		content, err := io.ReadAll(r)
		must.OK(t, err)
		files[name] = file{name, header.Mode, content}
	}
}

// The linker takes the name of a variable that is not there without a word.
func TestLinkerSetsTheVersion(t *testing.T) {
	if want := "-X " + reflect.TypeFor[version.Info]().PkgPath() + ".Version="; !strings.HasSuffix(linkerFlags, want) {
		t.Errorf("the flags are %q, want %q at their end", linkerFlags, want)
	}
	_ = &version.Version // the variable has this name
}

// An archive has what its pages link to. It builds no program, so it is part of every run.
func TestArchiveHasWhatItsPagesLinkTo(t *testing.T) {
	pages, err := (&cli{Root: "../.."}).pages()
	if err != nil || len(pages) < 20 {
		t.Fatal(len(pages), err)
	}
	there := map[string]bool{}
	for _, page := range pages {
		if there[page.name] {
			t.Errorf("the archive has %s twice", page.name)
		}
		there[page.name] = true
	}
	link := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	for _, page := range pages {
		if path.Ext(page.name) != ".md" {
			continue
		}
		for _, found := range link.FindAllSubmatch(page.content, -1) {
			if to := path.Join(path.Dir(page.name), string(found[1])); !there[to] {
				t.Errorf("%s links to %s, which is not in the archive", page.name, to)
			}
		}
	}
}

func TestRelease(t *testing.T) {
	dir, name := release(t)
	again, _ := release(t)
	for _, f := range []string{name + ".tar.gz", name + ".cdx.json", "SHA256SUMS"} {
		if !bytes.Equal(read(t, dir, f), read(t, again, f)) {
			t.Errorf("%s differs from build to build", f)
		}
	}
	files := unpack(t, read(t, dir, name+".tar.gz"), name)
	t.Run("archive", func(t *testing.T) { checkArchive(t, files) })
	t.Run("program", func(t *testing.T) { checkProgram(t, files["release"]) })
	t.Run("checksums", func(t *testing.T) { checkSums(t, dir, 2) })
	t.Run("modules", func(t *testing.T) { checkModules(t, read(t, dir, name+".cdx.json")) })
}

// checkArchive checks that an archive has the pages, and no test.
func checkArchive(t *testing.T, files map[string]file) {
	for _, want := range []string{
		"README.md", "CHANGELOG.md", "SECURITY.md", "docs/OPERATIONS.md", "docs/examples/http.php", "docs/examples/python/event.py",
		"deploy/keyfold@.service",
	} {
		if f, there := files[want]; !there || f.mode != 0o644 {
			t.Errorf("%s: %v, mode %o", want, there, f.mode)
		}
	}
	if mode := files["docs/examples/curl.sh"].mode; mode != 0o755 {
		t.Errorf("curl.sh has mode %o", mode)
	}
	for name := range files {
		if strings.HasSuffix(name, "_test.go") {
			t.Errorf("it has the test %s", name)
		}
	}
}

// checkProgram checks that a program runs, needs no C library and names no folder of
// the machine that built it.
func checkProgram(t *testing.T, f file) {
	if f.mode != 0o755 {
		t.Errorf("its mode is %o", f.mode)
	}
	place := filepath.Join(t.TempDir(), "program")
	must.OK(t, os.WriteFile(place, f.content, 0o755))
	if out, err := exec.CommandContext(t.Context(), place, "--help").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	info, err := buildinfo.Read(bytes.NewReader(f.content))
	must.OK(t, err)
	for _, want := range []debug.BuildSetting{{Key: "CGO_ENABLED", Value: "0"}, {Key: "-trimpath", Value: "true"}} {
		if !slices.Contains(info.Settings, want) {
			t.Errorf("it was built with %v, want %v", info.Settings, want)
		}
	}
	root, err := filepath.Abs("../..")
	must.OK(t, err)
	if bytes.Contains(f.content, []byte(root)) {
		t.Errorf("it names %s", root)
	}
}

// checkSums checks SHA256SUMS, which lists every other file of a folder.
func checkSums(t *testing.T, dir string, files int) {
	lines := strings.Split(strings.TrimSpace(string(read(t, dir, "SHA256SUMS"))), "\n")
	entries, err := os.ReadDir(dir)
	if err != nil || len(lines) != files || len(entries) != files+1 {
		t.Errorf("%d lines, %d files, %v", len(lines), len(entries), err)
	}
	for _, line := range lines {
		sum, name, _ := strings.Cut(line, "  ")
		if want := fmt.Sprintf("%x", sha256.Sum256(read(t, dir, name))); sum != want {
			t.Errorf("%s has the checksum %s, want %s", name, sum, want)
		}
	}
}

// checkModules checks that an SBOM has the modules of a program, with their versions.
func checkModules(t *testing.T, text []byte) {
	var b bom
	must.OK(t, json.Unmarshal(text, &b))
	const kong = "github.com/alecthomas/kong"
	version, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Version}}", kong).Output()
	must.OK(t, err)
	want := library(kong, strings.TrimSpace(string(version)))
	if b.Format != "CycloneDX" || b.Metadata.Component.Version != "v1.2.3" || !slices.Contains(b.Components, want) {
		t.Errorf("it has no %v: %s", want, text)
	}
	of := map[string][]string{}
	for _, d := range b.Dependencies {
		of[d.Ref] = d.DependsOn
	}
	if !slices.Contains(of["release"], want.Ref) || !slices.Equal(of[b.Metadata.Component.Ref], []string{"release"}) {
		t.Errorf("the program depends on %v", of)
	}
	standard := "pkg:golang/stdlib@" + strings.TrimPrefix(runtime.Version(), "go")
	if !slices.Contains(of["release"], standard) {
		t.Errorf("it has no %s: %v", standard, of["release"])
	}
}

func TestUnknownTarget(t *testing.T) {
	c := cli{Version: "v1", Out: t.TempDir(), Root: "../..", Targets: []string{"linux"}}
	if err := c.run(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), `"linux"`) {
		t.Errorf("%v", err)
	}
}

// The image's programs are built as those of a release.
func TestDockerfileBuildsTheSame(t *testing.T) {
	text := string(read(t, "../Dockerfile"))
	for _, want := range []string{"CGO_ENABLED=0 go build -trimpath", `-ldflags="` + linkerFlags + `$VERSION"`} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %s", want)
		}
	}
}
