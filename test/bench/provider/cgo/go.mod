module purerdma/test/bench/provider/cgo

go 1.26.0
