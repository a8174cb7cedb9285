// SPDX-License-Identifier: Apache-2.0

// Package api writes the exported API of a package as text, one line for each constant,
// variable, function, type, field and method. The files in docs/api hold the text of each
// public package, so that a change of the API shows in the diff of a commit.
package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// module is the path of the main module.
const module = "purerdma"

// Modules lists the directories of the other public modules.
var Modules = []string{"prometheus"}

// Dir is the directory of the files, relative to the root of the module.
const Dir = "docs/api"

// outside reports whether a package, named relative to the module, is not part of the API.
// Programs, tests and internal packages are not. The model of a ConnectX is below test, but
// programs use it in their tests.
func outside(pkg string) bool {
	first, _, _ := strings.Cut(pkg, "/")
	return pkg != "test/connectx/inprocess" && (first == "cmd" || first == "test") || slices.Contains(strings.Split(pkg, "/"), "internal")
}

// Files returns the API of each public package of the module in the directory root, for
// Linux on amd64, by the path of its file relative to the main module.
func Files(root string) (map[string][]byte, error) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export,Name,Module", "./...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "GOWORK=off")
	cmd.Stderr = new(bytes.Buffer)
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, cmd.Stderr)
	}
	exports := map[string]string{}
	var public []string
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Export, Name string
			Module                   struct{ Main bool }
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		exports[p.ImportPath] = p.Export
		if pkg, ours := strings.CutPrefix(p.ImportPath, module+"/"); ours && p.Module.Main && p.Name != "main" && !outside(pkg) {
			public = append(public, p.ImportPath)
		}
	}
	imp := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	files := map[string][]byte{}
	for _, path := range public {
		pkg, err := imp.Import(path)
		if err != nil {
			return nil, err
		}
		files[filepath.Join(Dir, strings.TrimPrefix(path, module+"/")+".txt")] = text(pkg)
	}
	return files, nil
}
