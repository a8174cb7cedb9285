// SPDX-License-Identifier: Apache-2.0

package example

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"log"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"purerdma/cm"
)

// TestAccept checks which errors of a listener end Accept.
func TestAccept(t *testing.T) {
	defer log.SetOutput(log.Writer())
	log.SetOutput(io.Discard)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		ctx       context.Context
		err       error
		continues bool
	}{
		{t.Context(), &cm.OpError{Op: "accept", Err: syscall.EMFILE}, true},
		{t.Context(), &cm.OpError{Op: "accept", Err: syscall.ENFILE}, true},
		{t.Context(), &cm.OpError{Op: "accept", Err: syscall.ENOMEM}, true},
		{ended, &cm.OpError{Op: "accept", Err: syscall.EMFILE}, false},
		{t.Context(), &cm.OpError{Op: "accept", Err: syscall.ENODEV}, false},
		{t.Context(), net.ErrClosed, false},
	} {
		synctest.Test(t, func(*testing.T) {
			failures := 3
			conn, err := Accept(tc.ctx, func(context.Context) (string, error) {
				if failures--; failures >= 0 {
					return "", tc.err
				}
				return "connection", nil
			})
			if tc.continues && (err != nil || conn != "connection") {
				t.Errorf("Accept() after %v = %q, %v, want the next connection", tc.err, conn, err)
			}
			if !tc.continues && !errors.Is(err, tc.err) {
				t.Errorf("Accept() after %v = %v, want that error", tc.err, err)
			}
		})
	}
}

// TestLoopsBackOff checks that no example calls ln.Accept in a loop without Accept of this package.
func TestLoopsBackOff(t *testing.T) {
	loops := 0
	err := filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		for n := range ast.Preorder(file) {
			switch n.(type) {
			case *ast.ForStmt, *ast.RangeStmt:
				loops++
			default:
				continue
			}
			for n := range ast.Preorder(n) {
				call, ok := n.(*ast.CallExpr)
				if ok && types.ExprString(call.Fun) == "ln.Accept" {
					t.Errorf("%s calls ln.Accept in a loop, want example.Accept(ctx, ln.Accept)", fset.Position(call.Pos()))
				}
			}
		}
		return nil
	})
	if err != nil || loops < 10 {
		t.Errorf("WalkDir() = %d loops, %v, want the loops of all examples", loops, err)
	}
}
