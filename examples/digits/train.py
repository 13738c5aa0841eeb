"""A small Keras CNN on scikit-learn's 8×8 digits: dropout, shuffling, and not one seed in sight.

Nothing here knows of envbuild. Run it twice by hand and the weights differ; run it twice with
``envbuild run`` and they are equal to the last bit.
"""

import argparse
import json

import keras
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--learning-rate", type=float, default=1e-3)
args = parser.parse_args()

images, labels = load_digits(return_X_y=True)
images = (images.reshape(-1, 8, 8, 1) / 16.0).astype(np.float32)
x_train, x_val, y_train, y_val = train_test_split(images, labels, test_size=0.2)

model = keras.Sequential(
    [
        keras.layers.Input((8, 8, 1)),
        keras.layers.Conv2D(32, 3, activation="relu"),
        keras.layers.Conv2D(32, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dropout(0.4),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dropout(0.2),
        keras.layers.Dense(10),
    ]
)
model.compile(
    optimizer=keras.optimizers.Adam(args.learning_rate),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
history = model.fit(
    x_train,
    y_train,
    validation_data=(x_val, y_val),
    epochs=args.epochs,
    batch_size=args.batch_size,
    verbose=2,
)

model.save_weights("digits.weights.h5")
with open("metrics.json", "w") as stream:
    json.dump(history.history, stream, indent=2)
print(f"val_accuracy {history.history['val_accuracy'][-1]:.4f}")
