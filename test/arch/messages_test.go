// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestFailureMessages checks that tests name the failed call when they report its error. It reads
// the files of all modules.
func TestFailureMessages(t *testing.T) {
	modules := 0
	skip := func(dir string) bool {
		if isModule(dir) {
			modules++
		}
		return false
	}
	walkFiles(t, skip, func(file string, src []byte) {
		for _, v := range bareErrors(t, file, src) {
			t.Errorf("%s", v)
		}
	})
	if modules < 2 {
		t.Errorf("%d modules below the main module, want several: the test looked in the wrong place", modules)
	}
}

// TestFailureMessages is worth nothing if it cannot fail.
func TestFailureMessagesFindsViolations(t *testing.T) {
	for _, tc := range []struct {
		call string
		bare bool
	}{
		{`t.Fatal(err)`, true},
		{`t.Error(err)`, true},
		{`b.Fatal(err)`, true},
		{`tb.Fatal(err)`, true},
		{`f.Fatal(err)`, true},
		{`r.t.Fatal(err)`, true},
		{`t.Fatal(dialErr)`, true},
		{`t.Fatal(errDial)`, true},
		{`t.Fatal(r.err)`, true},
		{`t.Fatal(wc.Err())`, true},
		{`t.Fatal(errors.Join(a, b))`, true},
		{`t.Fatal(err, out)`, true},
		{`t.Fatalf("%v", err)`, true},
		{`t.Errorf("%s\n", err)`, true},
		{`t.Fatalf("Dial: %v", err)`, false},
		{`t.Fatalf("%s: %v", call, err)`, false},
		{`t.Errorf("Dial = %v, want %v", err, want)`, false},
		{`t.Fatal("no address")`, false},
		{`t.Error(diff)`, false},
		{`t.Log(err)`, false},
		{`log.Fatal(err)`, false},
		{`err.Error()`, false},
	} {
		src := "package x\nimport \"testing\"\nfunc x() {\n\t" + tc.call + "\n}"
		got := bareErrors(t, "cm/x_test.go", []byte(src))
		if bare := len(got) == 1 && strings.HasPrefix(got[0], "cm/x_test.go:4: "); bare != tc.bare || len(got) > 1 {
			t.Errorf("bareErrors(%s) = %q, want a violation in line 4: %v", tc.call, got, tc.bare)
		}
	}
	program := "package x\nfunc x() {\n\tu.Errorf(\"%v\", err)\n}"
	if got := bareErrors(t, "cmd/x/x.go", []byte(program)); len(got) != 0 {
		t.Errorf("bareErrors(a file without package testing) = %q, want none", got)
	}
}

// bareErrors returns the calls in a file that print an error and do not name the failed call. They
// are calls of the methods of testing.T that print. It does not need the types because errors have
// names like err, dialErr and errDial. Files that do not import package testing and calls of
// log.Fatal are not checked.
func bareErrors(t *testing.T, file string, src []byte) []string {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatalf("parser.ParseFile(%s): %v", file, err)
	}
	isTesting := func(s *ast.ImportSpec) bool { return s.Path.Value == `"testing"` }
	if !slices.ContainsFunc(f.Imports, isTesting) {
		return nil
	}
	var out []string
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || isNamed(method.X, "log") {
			return true
		}
		bare := false
		switch method.Sel.Name {
		case "Fatal", "Error":
			bare = isError(call.Args[0])
		case "Fatalf", "Errorf":
			bare = len(call.Args) == 2 && isOnlyVerb(call.Args[0]) && isError(call.Args[1])
		}
		if bare {
			out = append(out, fmt.Sprintf("%s:%d: %s does not name the failed call: write Fatalf(\"Name: %%v\", err)",
				file, set.Position(call.Pos()).Line, method.Sel.Name))
		}
		return true
	})
	return out
}

// isError reports whether an expression is an error by its name.
func isError(e ast.Expr) bool {
	name := ""
	switch e := e.(type) {
	case *ast.Ident:
		name = e.Name
	case *ast.SelectorExpr:
		name = e.Sel.Name
	case *ast.CallExpr:
		if f, ok := e.Fun.(*ast.SelectorExpr); ok {
			return f.Sel.Name == "Err" || f.Sel.Name == "Join" && isNamed(f.X, "errors")
		}
	}
	rest, isPrefix := strings.CutPrefix(name, "err")
	return isPrefix && (rest == "" || rest[0] < 'a' || rest[0] > 'z') || strings.HasSuffix(name, "Err")
}

// isNamed reports whether an expression is an identifier with a name.
func isNamed(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// isOnlyVerb reports whether an expression is a format that has one verb and no text.
func isOnlyVerb(e ast.Expr) bool {
	lit, ok := e.(*ast.BasicLit)
	if !ok {
		return false
	}
	format, err := strconv.Unquote(lit.Value)
	if err != nil {
		return false
	}
	switch strings.TrimSpace(format) {
	case "%v", "%+v", "%s", "%q":
		return true
	}
	return false
}
