module purerdma/test/bench-mlx5/cgo

go 1.26.0
