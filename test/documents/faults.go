// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
)

// fault is a fault of a kernel driver. The strings are Markdown.
type fault struct {
	Driver     string // "rxe", "siw", "mlx5", "erdma", "all", "unexplained", "QEMU", "rdma-core"
	Title      string // the heading, without the driver
	Affected   string // versions
	Symptom    string
	Impact     string // the consequences for a program
	Workaround string // of the library, or for programs
	Evidence   string // the tests and observations, and the cause in the source if it is known
}

// faults returns a section for each fault of a driver.
func faults(module fs.FS, file, driver string) (string, error) {
	f, err := module.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	dec := json.NewDecoder(f)
	dec.DisallowUnknownFields()
	var list []fault
	if err := dec.Decode(&list); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	var out strings.Builder
	for _, f := range list {
		if f.Driver != driver {
			continue
		}
		fmt.Fprintf(&out, "\n### %s: %s\n\n", f.Driver, f.Title)
		for _, part := range []struct{ name, text string }{
			{"Symptom", f.Symptom},
			{"Affected", f.Affected},
			{"Impact", f.Impact},
			{"Work-around", f.Workaround},
			{"Evidence", f.Evidence},
		} {
			if part.text == "" {
				return "", fmt.Errorf("%s: %q has no %s", file, f.Title, part.name)
			}
			fmt.Fprintf(&out, "- **%s**: %s\n", part.name, part.text)
		}
	}
	if out.Len() == 0 {
		return "", fmt.Errorf("%s has no fault of %q", file, driver)
	}
	return out.String() + "\n", nil
}
