package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
)

// makers are slog's makers of attributes.
var makers = []string{"String", "Int", "Int64", "Uint64", "Float64", "Bool", "Duration", "Time", "Any"}

// TestLogLines: the components and the attributes of log lines are those that
// reference/logs.md explains, and each function that logs a warning or an error names a cure.
//
// Promise(security/log-lines)
func TestLogLines(t *testing.T) {
	page, err := os.ReadFile("reference/logs.md")
	must.OK(t, err)
	listed := map[string][]string{}
	for _, what := range []string{"component", "attribute"} {
		_, table, _ := strings.Cut(string(page), "\n| "+what+" | ")
		table, _, _ = strings.Cut(table, "\n\n")
		for _, row := range regexp.MustCompile("(?m)^\\| (`.*?) \\|").FindAllStringSubmatch(table, -1) {
			for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
				listed[what] = append(listed[what], name[1])
			}
		}
	}
	components, attributes := map[string]bool{"admin": true}, map[string]bool{}
	for _, f := range sources(t) {
		for _, declared := range f.Decls {
			names, warns := logged(declared, components)
			for _, name := range names {
				attributes[name] = true
			}
			if f, ok := declared.(*ast.FuncDecl); ok && warns && !slices.Contains(names, "hint") {
				t.Errorf("%s logs a warning or an error without a hint", f.Name.Name)
			}
		}
	}
	for what, used := range map[string]map[string]bool{"component": components, "attribute": attributes} {
		slices.Sort(listed[what])
		if found := slices.Sorted(maps.Keys(used)); !slices.Equal(found, listed[what]) {
			t.Errorf("the code has each %s of %q\nreference/logs.md has %q", what, found, listed[what])
		}
	}
}

// logged returns the attributes that a declaration names, and whether it logs warnings or
// errors. It adds the components.
func logged(declared ast.Decl, components map[string]bool) (names []string, warns bool) {
	ast.Inspect(declared, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			warns = warns || is(n, "slog", "LevelWarn", "LevelError")
		case *ast.CallExpr:
			called, ok := n.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			switch {
			case is(called, "slog", makers...):
				if name, ok := text(n.Args[0]); ok {
					names = append(names, name)
				}
			case called.Sel.Name == "With" && len(n.Args) == 2:
				if key, _ := text(n.Args[0]); key == "component" {
					name, _ := text(n.Args[1])
					components[name] = true
				}
			case called.Sel.Name == "Warn" || called.Sel.Name == "Error" && len(n.Args) > 0 && !isStandard(called):
				warns = true
				if n.Ellipsis == token.NoPos && !hasHint(n) {
					names = append(names, "hint missing: "+fmt.Sprint(text(n.Args[0])))
				}
			}
		}
		return true
	})
	return names, warns
}

func hasHint(call *ast.CallExpr) (found bool) {
	ast.Inspect(call, func(n ast.Node) bool {
		if l, ok := n.(ast.Expr); ok {
			key, _ := text(l)
			found = found || key == "hint"
		}
		return true
	})
	return found
}

// is reports whether an expression is one of the names of a package.
func is(e *ast.SelectorExpr, pkg string, names ...string) bool {
	x, ok := e.X.(*ast.Ident)
	return ok && x.Name == pkg && slices.Contains(names, e.Sel.Name)
}

// isStandard reports whether a call of Error is not one of a logger.
func isStandard(e *ast.SelectorExpr) bool { return is(e, "http", "Error") || is(e, "t", "Error") }

func text(e ast.Expr) (string, bool) {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(l.Value)
	return s, err == nil
}

// sources returns the files of product code.
func sources(t *testing.T) (all []*ast.File) {
	t.Helper()
	for _, room := range []string{"engine", "shard", "source", "sink", "service", "internal", "cmd"} {
		err := filepath.WalkDir(filepath.Join("..", room), func(path string, _ fs.DirEntry, err error) error {
			if filepath.Base(path) == "testserver" {
				return fs.SkipDir
			}
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			all = append(all, f)
			return err
		})
		must.OK(t, err)
	}
	return all
}
