// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// imports has the packages that code in documents may use without an import.
var imports = map[string]string{
	"cm": "purerdma/cm", "verbs": "purerdma/verbs", "oob": "purerdma/oob", "pool": "purerdma/pool", "inflight": "purerdma/inflight",
	"msg": "purerdma/msg", "stream": "purerdma/stream", "rsocket": "purerdma/rsocket", "mlx5dv": "purerdma/verbs/mlx5dv",
	"cmtest": "purerdma/cm/cmtest", "uverbstest": "purerdma/uverbs/uverbstest", "inprocess": "purerdma/test/connectx/inprocess",
	"provider": "purerdma/provider", "mlx5": "purerdma/provider/mlx5",
	"context": "context", "errors": "errors", "fmt": "fmt", "io": "io", "log": "log", "slog": "log/slog", "net": "net",
	"netip": "net/netip", "os": "os", "sync": "sync", "syscall": "syscall", "testing": "testing", "time": "time",
}

// params matches the marker before a block of statements, which declares their variables.
var params = regexp.MustCompile(`^<!-- go:(.*)-->$`)

// block is a block of Go code in a document.
type block struct {
	file   string
	line   int // of its first line, from 1 up
	code   string
	params string
}

// blocks returns the Go code blocks of a document. It leaves out the parts
// that Files writes, because their files are compiled anyway.
func blocks(file, text string) (out []block) {
	var b *block
	generated, next := false, ""
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "<!-- code "):
			generated = true
		case trimmed == end:
			generated = false
		case generated:
		case b == nil && trimmed == "```go":
			b = &block{file: file, line: i + 2, params: next}
			next = ""
		case b != nil && trimmed == "```":
			out = append(out, *b)
			b = nil
		case b != nil:
			b.code += line + "\n"
		case params.MatchString(trimmed):
			next = params.FindStringSubmatch(trimmed)[1]
		}
	}
	return out
}

// source returns a Go file that compiles if the block does. The block is a file, some
// declarations, or statements of a function that returns an error.
func (b *block) source() string {
	pos := fmt.Sprintf("//line %s:%d\n", b.file, b.line)
	if strings.HasPrefix(b.code, "package ") {
		return pos + b.code
	}
	body := pos + b.code
	if _, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+b.code, 0); err != nil {
		body = "func _(" + strings.TrimSpace(b.params) + ") error {\n" + pos + b.code + "\npanic(0)\n}\n"
	}
	return "package p\n" + needed(body) + body
}

// needed returns the import declarations for the packages that a source without imports
// uses.
func needed(body string) string {
	f, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+body, 0)
	if err != nil {
		return "" // the compiler reports it
	}
	var paths []string
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := sel.X.(*ast.Ident); ok && id.Obj == nil && imports[id.Name] != "" {
				paths = append(paths, imports[id.Name])
			}
		}
		return true
	})
	slices.Sort(paths)
	out := ""
	for _, path := range slices.Compact(paths) {
		out += fmt.Sprintf("import %q\n", path)
	}
	return out
}

// compile builds each block as a package of its own, and returns the compiler's errors.
func compile(t *testing.T, list []block) (string, error) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatalf("filepath.Abs: %v", err)
	}
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
	write("go.mod", "module documents\n\ngo 1.26.0\n\nrequire purerdma v0.0.0\n\nreplace purerdma => "+root+"\n")
	write("go.sum", read(t, filepath.Join(root, "go.sum")))
	for i, b := range list {
		name := fmt.Sprintf("p%d", i)
		if err := os.Mkdir(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatalf("os.Mkdir: %v", err)
		}
		write(filepath.Join(name, "p.go"), b.source())
	}
	cmd := exec.Command("go", "build", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "CGO_ENABLED=0", "GOOS=linux")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// goLine matches the beginning of a line of Go code that is no shell command.
var goLine = regexp.MustCompile(`^(?:    |\t)\s*(?:[\w, ]+ := |func |if err |defer |return |import |package )`)

// indented returns the lines of Go code in indented blocks, which no test compiles.
func indented(text string) (lines []string) {
	fence := false
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			fence = !fence
		case !fence && goLine.MatchString(line):
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// TestIndentedCode requires that the Go code of all documents is in fenced blocks.
func TestIndentedCode(t *testing.T) {
	files, err := Files("../..")
	if err != nil {
		t.Fatalf("Files: %v", err)
	}
	for name, text := range files {
		for _, line := range indented(text) {
			t.Errorf("%s has the indented Go code %q, want it in a block that begins with ```go", name, line)
		}
	}
}

// TestIndentedCodeFindsGo finds Go code, and no shell commands.
func TestIndentedCodeFindsGo(t *testing.T) {
	const doc = "    go build ./...\n    conn, err := cm.Dial(ctx)\n```go\n\tx := 1\n```\n    if [ -e x ]; then\n    defer conn.Close()\n"
	got, want := strings.Join(indented(doc), "; "), "conn, err := cm.Dial(ctx); defer conn.Close()"
	if got != want {
		t.Errorf("indented(%q) = %q, want %q", doc, got, want)
	}
}

// TestCode compiles the Go code of all documents.
func TestCode(t *testing.T) {
	files, err := Files("../..")
	if err != nil {
		t.Fatalf("Files: %v", err)
	}
	var list []block
	for name, text := range files {
		list = append(list, blocks(strings.TrimPrefix(filepath.ToSlash(name), "../../"), text)...)
	}
	if len(list) == 0 {
		t.Error("no document has Go code")
	}
	if out, err := compile(t, list); err != nil {
		t.Errorf("go build: %v\n%s", err, out)
	}
}

// TestCodeFindsErrors compiles blocks with and without errors.
func TestCodeFindsErrors(t *testing.T) {
	const doc = "text\n```go\npackage main\n\nfunc main() {}\n```\n" +
		"```go\nfunc f() error { return verbs.ErrFull }\n```\n" +
		"<!-- go: ctx context.Context -->\n```go\nif ctx == nil {\n\treturn cm.Gone\n}\n```\n" +
		"<!-- code x.go -->\n```go\nnot compiled\n```\n<!-- end -->\n"
	list := blocks("x.md", doc)
	if len(list) != 3 {
		t.Fatalf("blocks returned %d blocks, want 3", len(list))
	}
	if out, err := compile(t, list[:2]); err != nil {
		t.Errorf("go build of correct blocks: %v\n%s", err, out)
	}
	if out, err := compile(t, list); err == nil || !strings.Contains(out, "x.md:13") || !strings.Contains(out, "cm.Gone") {
		t.Errorf("go build = %v\n%s\nwant an error in line 13 of x.md about cm.Gone", err, out)
	}
}
