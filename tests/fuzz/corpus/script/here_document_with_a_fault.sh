s#[esac
run() { torchr <<EOF
value $X
Eëÿÿÿhile read -r a b; do Z=$b; done < conf.txt
run pretrain_gpt.py "${ARGS[@]}"n --lr 1e-$i --save "${OUT:=$X
Eëÿÿÿhile read -r a b; do Z=$b; done < conf.txt
run pretrain_gpt.py "${ARGS[@]}"n --lr 1e-$i --save "${OUT:=/tmp/${Y:-}}A" $(echo -!/b-xÊtch 